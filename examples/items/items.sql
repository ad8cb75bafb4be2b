-- The table of items.yaml. The trigger that tells which rows change comes from the gateway itself:
--   psql -v ON_ERROR_STOP=1 -f items.sql "$DATABASE_URL"
--   crocodile-pear events postgres items | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"
create table items (
  id integer generated always as identity primary key,
  name text not null unique check (length(name) between 1 and 200),
  value boolean not null default false,
  -- Every change counts it up: it is the item's ETag.
  version integer not null default 1,
  changed timestamptz not null default now()
);

insert into items (name, value)
values ('apple', true), ('pear', true), ('quince', false), ('medlar', false), ('crocodile', true);
