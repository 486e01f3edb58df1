/**
 * Runs the cache of `retrievalTool` on SQLite, whose store has a native build and is no dependency
 * of this project:
 * `npm run check:keyv -- FOLDER`, where `npm install keyv @keyv/sqlite` was run in FOLDER.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { orThrow } from '../src/core/failure.js'
import { keyFromSeed } from '../src/core/key.js'
import { retrievalTool } from '../src/envs/tools/retrieval.js'
import type { RetrievalStore } from '../src/envs/tools/retrievalCache.js'
import { liveTransport } from '../src/live/transport/liveTransport.js'

interface Store extends RetrievalStore {
  readonly disconnect: () => Promise<void>
}

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('usage: npm run check:keyv -- FOLDER')
const load = createRequire(join(resolve(folder), 'package.json'))
// Both packages are built by those who run this: their types are those of `keyv` in our
// node_modules.
const { Keyv } = load('keyv') as { readonly Keyv: new (options: unknown) => Store }
const { default: KeyvSqlite } = load('@keyv/sqlite') as { readonly default: new (uri: string) => unknown }

let asked = 0
const engine = createServer((_, response) => {
  asked++
  response.end(JSON.stringify({ results: [{ text: 'a passage' }] }))
}).listen(0, '127.0.0.1')
await once(engine, 'listening')
const { port } = engine.address() as AddressInfo // a server on TCP has an address with a port
const transport = liveTransport({ url: `http://127.0.0.1:${port}` })
const place = mkdtempSync(join(tmpdir(), 'tandem-keyv-'))
const notes: string[] = []

const ask = async (query: string): Promise<void> => {
  const store = new Keyv({ store: new KeyvSqlite(`sqlite://${join(place, 'cache.sqlite')}`) })
  const search = retrievalTool({ transport, cache: { store, ttlMs: 600_000 }, onNote: (note) => notes.push(note) })
  const call = search.call({ query }, { state: null, key: keyFromSeed(0), signal: new AbortController().signal })
  assert.equal(orThrow(await call()).content, '[1]\na passage')
  await store.disconnect()
}

await ask('one')
await ask('one') // another connection to the same file
await ask('two')
assert.deepEqual([asked, notes], [2, []])
await transport.close()
engine.close()
rmSync(place, { recursive: true })
console.log('SQLite: three queries, two of them equal; the engine was asked twice')
