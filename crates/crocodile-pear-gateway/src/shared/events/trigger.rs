//! The SQL of a trigger that tells a channel which rows of a table change.

use std::fmt::Write;

use super::postgres::quote;
use super::source::CHANNEL;

/// The longest name that PostgreSQL has for anything.
const NAME: usize = 63;

/// A table, and what is told of it.
#[derive(Debug)]
pub struct Trigger {
    table: TableName,
    channel: String,
    /// The columns that a message has; by default those of the primary key.
    columns: Vec<String>,
}

/// The name of a table, perhaps with its schema.
#[derive(Debug, PartialEq, Eq)]
struct TableName {
    schema: Option<String>,
    name: String,
}

impl Trigger {
    /// Names are read as SQL reads them: in lower case, unless they are in double quotes.
    ///
    /// # Errors
    /// Which of them is no name.
    pub fn new(table: &str, channel: Option<&str>, columns: &[String]) -> Result<Self, String> {
        let table = TableName::parse(table)?;
        let channel = channel.unwrap_or(&table.name).to_owned();
        if channel.is_empty() || channel.len() > CHANNEL {
            return Err(format!("the name of a channel has from 1 to {CHANNEL} bytes"));
        }
        fit(&channel)?;
        let columns = columns.iter().map(|written| match names(written)?.as_slice() {
            [column] => Ok(column.clone()),
            _ => Err(format!("`{written}` is not the name of a column")),
        });
        Ok(Trigger { table, channel, columns: columns.collect::<Result<_, String>>()? })
    }

    /// The SQL that installs the trigger, or replaces it.
    pub fn install(&self) -> String {
        let (table, function, [rows, truncates]) = (self.table.sql(), self.function(), self.triggers());
        let create = match self.columns.as_slice() {
            [] => self.create_by_key(),
            columns => format!("{};\n", self.create(&fields("OLD", columns), &fields("NEW", columns))),
        };
        format!(
            "-- Tells the channel {channel} which rows of {table} change. The end of this file says how to remove it.\n\
             begin;\n\
             -- It waits for transactions that write to the table, and others wait behind it.\n\
             set local lock_timeout = '10s';\n\n\
             {create}\n\
             drop trigger if exists {rows} on {table};\n\
             create trigger {rows} after insert or update or delete on {table}\n  for each row execute function {function}();\n\
             drop trigger if exists {truncates} on {table};\n\
             create trigger {truncates} after truncate on {table}\n  for each statement execute function {function}();\n\
             -- For rows that come by logical replication, too.\n\
             alter table {table} enable always trigger {rows};\n\
             alter table {table} enable always trigger {truncates};\n\n\
             commit;\n\n\
             -- To remove it:\n{remove}",
            channel = quote(&self.channel),
            remove = self.remove().lines().fold(String::new(), |mut out, line| {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "--   {line}");
                out
            }),
        )
    }

    /// The SQL that removes the trigger.
    pub fn remove(&self) -> String {
        let (table, function, [rows, truncates]) = (self.table.sql(), self.function(), self.triggers());
        format!(
            "drop trigger if exists {rows} on {table};\n\
             drop trigger if exists {truncates} on {table};\n\
             drop function if exists {function}();\n"
        )
    }

    /// The function, with these fields of a row.
    fn create(&self, old: &str, new: &str) -> String {
        let (function, channel) = (self.function(), literal(&self.channel));
        let tell = |fields: &str| {
            format!(
                "    message := (about || jsonb_build_object({fields}))::text;\n    \
                 perform pg_notify({channel}, case when octet_length(message) < 8000 then message else about::text end);\n"
            )
        };
        format!(
            "create or replace function {function}() returns trigger\n\
             language plpgsql set search_path = pg_catalog, pg_temp as $body$\n\
             declare\n  \
               about constant jsonb := jsonb_build_object('schema', TG_TABLE_SCHEMA, 'table', TG_TABLE_NAME, 'operation', TG_OP);\n  \
               message text;\n\
             begin\n  \
               -- A message without columns is about the whole table: so is one that NOTIFY would find too long.\n  \
               if TG_OP = 'TRUNCATE' then\n    \
                 perform pg_notify({channel}, about::text);\n    \
                 return null;\n  \
               end if;\n  \
               if TG_OP <> 'INSERT' then\n{}  end if;\n  \
               -- The same message twice in one transaction is sent once.\n  \
               if TG_OP <> 'DELETE' then\n{}  end if;\n  \
               return null;\n\
             end\n$body$",
            tell(old),
            tell(new),
        )
    }

    /// The same with the columns of the primary key, which the database knows.
    fn create_by_key(&self) -> String {
        let table = literal(&self.table.sql());
        // No name has control characters; `%` may be in one.
        let create = self.create("\u{1}", "\u{2}").replace('%', "%%").replace('\u{1}', "%1$s").replace('\u{2}', "%2$s");
        format!(
            "do $install$\n\
             declare\n  \
               keys constant text[] := (\n    \
                 select array_agg(a.attname::text order by k.place)\n    \
                 from pg_catalog.pg_index i, unnest(i.indkey) with ordinality k(number, place), pg_catalog.pg_attribute a\n    \
                 where i.indrelid = {table}::regclass and i.indisprimary and a.attrelid = i.indrelid and a.attnum = k.number);\n\
             begin\n  \
               if keys is null then\n    \
                 raise exception 'the table has no primary key'\n      \
                   using hint = 'Name the columns that tell its rows apart: crocodile-pear events postgres TABLE --column NAME';\n  \
               end if;\n  \
               execute format(\n$create$\n{create}\n$create$,\n    \
                 (select string_agg(format('%L, OLD.%I', key, key), ', ') from unnest(keys) key),\n    \
                 (select string_agg(format('%L, NEW.%I', key, key), ', ') from unnest(keys) key));\n\
             end\n$install$;\n"
        )
    }

    /// The function: in the schema of the table.
    fn function(&self) -> String {
        self.table.beside(&short(&format!("crocodile_pear_{}", self.table.name)))
    }

    fn triggers(&self) -> [String; 2] {
        ["crocodile_pear_rows", "crocodile_pear_truncate"].map(quote)
    }
}

impl TableName {
    fn parse(written: &str) -> Result<Self, String> {
        match <[String; 2]>::try_from(names(written)?) {
            Ok([schema, name]) => Ok(TableName { schema: Some(schema), name }),
            Err(mut names) => match (names.pop(), names.pop()) {
                (Some(name), None) => Ok(TableName { schema: None, name }),
                _ => Err(format!("`{written}` is not the name of a table: write `TABLE` or `SCHEMA.TABLE`")),
            },
        }
    }

    fn sql(&self) -> String {
        self.beside(&self.name)
    }

    fn beside(&self, name: &str) -> String {
        let schema = self.schema.as_ref().map(|schema| format!("{}.", quote(schema)));
        format!("{}{}", schema.unwrap_or_default(), quote(name))
    }
}

/// Names with points between them, as SQL reads them.
fn names(written: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = written;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                quoted_name(quoted).ok_or_else(|| format!("a quote is missing at the end of `{written}`"))?
            }
            None => {
                let (name, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                (name.to_lowercase(), after)
            }
        };
        let plain = name.chars().all(|c| c.is_alphanumeric() || "_$".contains(c))
            && !name.starts_with(|c: char| c.is_ascii_digit() || c == '$');
        if name.is_empty() || name.len() > NAME || !(plain || rest.starts_with('"')) {
            return Err(format!(
                "`{written}` is not a name in SQL; others than plain names stand in double quotes: `'\"my table\"'`"
            ));
        }
        fit(&name)?;
        names.push(name);
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(names),
            None => return Err(format!("`{written}` is not a name in SQL")),
        }
    }
}

/// Refuses a name that could end what stands around it.
fn fit(name: &str) -> Result<(), String> {
    let ends = ["$body$", "$create$", "$install$"].iter().any(|end| name.contains(end));
    if ends || name.contains(char::is_control) {
        return Err(format!("the name {name:?} cannot be used here"));
    }
    Ok(())
}

/// The name up to its closing quote, and what follows. A quote in it is doubled.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

/// A name that is not longer than names may be, and still differs from others.
fn short(name: &str) -> String {
    if name.len() <= NAME {
        return name.to_owned();
    }
    // FNV-1a: the same in every version, which may have to remove what another one installed.
    let hash = name.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let end = (0..NAME - 9).rev().find(|at| name.is_char_boundary(*at)).unwrap_or_default();
    format!("{}_{hash:08x}", &name[..end])
}

/// The columns of a row as arguments of `jsonb_build_object`.
fn fields(row: &str, columns: &[String]) -> String {
    let field = |column: &String| format!("{}, {row}.{}", literal(column), quote(column));
    columns.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// A text in SQL.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}
