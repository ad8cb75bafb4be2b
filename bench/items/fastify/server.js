// /api/items as one would write it with fastify and pg: a process for each core, which share the connections out.
import cluster from 'node:cluster';
import os from 'node:os';
import Fastify from 'fastify';
import pg from 'pg';

const cores = os.availableParallelism();
const connections = Number(process.env.CONNECTIONS);

if (cluster.isPrimary) {
  for (let core = 0; core < cores; core++) cluster.fork();
  process.on('SIGTERM', () => process.exit());
} else {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: Math.max(1, Math.floor(connections / cores)) });
  const app = Fastify();
  const id = { params: { type: 'object', properties: { id: { type: 'integer' } } } };
  const body = { body: { type: 'object', required: ['value'], properties: { value: { type: 'boolean' } } } };
  const item = { type: 'object', properties: { id: { type: 'integer' }, value: { type: 'boolean' } } };
  // Named statements are prepared once for each connection.
  const ask = (name, text, values) => pool.query({ name, text, values });
  const one = (reply, { rows }) => rows[0] ?? reply.code(404).send();

  app.post('/api/items', { schema: { ...body, response: { 201: item } } }, async (request, reply) => {
    const { rows } = await ask('create', 'insert into items (value) values ($1) returning id, value', [request.body.value]);
    reply.code(201).header('location', `/api/items/${rows[0].id}`);
    return rows[0];
  });
  app.get('/api/items', { schema: { response: { 200: { type: 'array', items: item } } } }, async () => {
    return (await ask('list', 'select id, value from items order by id limit 20')).rows;
  });
  app.get('/api/items/:id', { schema: { ...id, response: { 200: item } } }, async (request, reply) => {
    return one(reply, await ask('get', 'select id, value from items where id = $1', [request.params.id]));
  });
  app.put('/api/items/:id', { schema: { ...id, ...body, response: { 200: item } } }, async (request, reply) => {
    const values = [request.params.id, request.body.value];
    return one(reply, await ask('update', 'update items set value = $2 where id = $1 returning id, value', values));
  });
  app.delete('/api/items/:id', { schema: { ...id, response: { 200: item } } }, async (request, reply) => {
    return one(reply, await ask('delete', 'delete from items where id = $1 returning id, value', [request.params.id]));
  });
  await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
}
