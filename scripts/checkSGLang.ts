/**
 * Checks the client for SGLang against real PyTorch: `npm run check:sglang -- [SEED [pickles]]`,
 * with PEERS_VENV set to a virtual
 * environment with torch and transformers. With SGLANG_SOURCE set to the
 * `sglang/srt/utils/common.py` of a release, its own restricted unpickler reads the tensors.
 *
 * First, and with `pickles` only, the pickles of random arrays, as PyTorch reads them; then a
 * server of the same protocol over a real model
 * (`engines/fakeSGLang.py`): its log-probabilities are those of our own model after each of ten
 * updates from tensors, from a folder, and of adapters. Exits with 1 if anything differs.
 */
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { orThrow } from '../src/core/failure.js'
import { child, type Key, keyFromSeed, normals } from '../src/core/key.js'
import { storedBytes } from '../src/data/codecs/storage.js'
import type { EngineClient } from '../src/data/engineClient.js'
import type { GenerationEvent, PlainArray } from '../src/data/generation.js'
import { scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { liveFiles } from '../src/live/files.js'
import { DEFAULT_SAMPLING } from '../src/modules/generation/sampling/params.js'
import { mergeLora } from '../src/modules/lora/adapter.js'
import { loraConfig } from '../src/modules/lora/config.js'
import { adapterWeights } from '../src/modules/lora/weights.js'
import { loadPretrained, makeParams, type Pretrained } from '../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../src/modules/pretrained/saveModel.js'
import { base64 } from '../src/modules/remote/sglang/base64.js'
import { sglangClient } from '../src/modules/remote/sglang/client.js'
import { type PickleForm, pickledTensors, type TensorFloat } from '../src/modules/remote/sglang/pickle.js'
import type { Params } from '../src/modules/transformer/params.js'
import { makeScorer } from '../src/modules/transformer/scorer.js'
import { randomAdapter } from '../test/kit/lora.js'

/** Largest difference of a log-probability, in nats. */
const LIMIT = 1e-4
const MODEL = 'models/word-problems'
const UPDATES = 10
const PROBES = 6
const TEMPERATURE = 0.8

const { PEERS_VENV: venv } = process.env
if (venv === undefined) {
  console.error('set PEERS_VENV to a virtual environment with torch and transformers')
  process.exit(2)
}
const python = join(venv, 'bin/python')
const seed = Number(process.argv[2] ?? Date.now() % 1_000_000)
const root = keyFromSeed(seed)

const report = (fields: Readonly<Record<string, unknown>>, ok: 'ok' | 'wrong'): void => {
  console.log(JSON.stringify({ ...fields, ok: ok === 'ok' }))
  if (ok === 'wrong') process.exitCode = 1
}

const DTYPES: Readonly<Record<TensorFloat, string>> = { F32: 'float32', F16: 'float16', BF16: 'bfloat16' }

/** Random arrays under random names, of up to three axes, empty ones and scalars among them. */
const anyTensors: fc.Arbitrary<ReadonlyMap<string, PlainArray>> = fc
  .array(fc.tuple(fc.string(), fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 3 })), {
    minLength: 1,
    maxLength: 5,
  })
  .chain((named) =>
    fc.integer({ min: 0, max: 2 ** 30 }).map(
      (drawn) =>
        new Map(
          named.map(([name, shape], i): [string, PlainArray] => {
            const count = shape.reduce((product, size) => product * size, 1)
            return [`${i}${name}`, { shape, data: normals(child(keyFromSeed(drawn), i), count) }]
          }),
        ),
    ),
  )

const checkPickles = (): void => {
  const cases = fc.sample(
    fc.tuple(
      anyTensors,
      fc.constantFrom<PickleForm>('list', 'dict'),
      fc.constantFrom<TensorFloat>('F32', 'F16', 'BF16'),
    ),
    { numRuns: 300, seed },
  )
  const input = cases.map(([tensors, form, float]) => base64(pickledTensors(tensors, { form, float }))).join('\n')
  const output = execFileSync(python, ['scripts/checkSGLang.py'], { input, maxBuffer: 2 ** 28 }).toString()
  const read: readonly unknown[] = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const wanted = cases.map(([tensors, , float]) =>
    [...tensors].map(([name, { shape, data }]) => {
      const hash = createHash('sha256')
      for (const piece of storedBytes({ type: float, shape, data })) hash.update(piece)
      return { name, dtype: DTYPES[float], shape, contiguous: true, sha256: hash.digest('hex') }
    }),
  )
  const wrong = cases.flatMap((_, i) => (JSON.stringify(read[i]) === JSON.stringify(wanted[i]) ? [] : [i]))
  const unpickler = process.env.SGLANG_SOURCE === undefined ? 'three names' : "SGLang's own"
  report({ what: 'pickles', unpickler, seed, cases: cases.length, wrong }, wrong.length === 0 ? 'ok' : 'wrong')
}

interface FakeServer {
  readonly url: string
  readonly stop: () => void
}

const startServer = (release: 'new' | 'old'): Promise<FakeServer> =>
  new Promise((resolve, reject) => {
    const process_ = spawn(python, ['scripts/engines/fakeSGLang.py', MODEL, release], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    process_.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
    process_.stdout.on('data', (data: Buffer) => {
      const [, port] = /ready (\d+)/.exec(data.toString()) ?? []
      if (port !== undefined) resolve({ url: `http://127.0.0.1:${port}`, stop: () => process_.kill() })
    })
  })

/** Weights near others: every number moves by a hundredth of a normal one. */
const moved = (arrays: ReadonlyMap<string, PlainArray>, key: Key): ReadonlyMap<string, PlainArray> =>
  new Map(
    [...arrays].map(([name, { shape, data }]) => {
      const noise = normals(child(key, name), data.length)
      return [name, { shape, data: data.map((x, i) => x + 0.01 * noise[i]!) }]
    }),
  )

const plain = ({ arrays }: Pretrained): ReadonlyMap<string, PlainArray> =>
  new Map(
    [...arrays].map(([name, { shape, data }]) => [name, { shape, data: Float32Array.from(data as Float32Array) }]),
  ) // a float32 model

/**
 * Samples with the client, scores the same tokens here: the largest difference, and the versions
 * that the tokens carry.
 */
const gapOf = async (client: EngineClient, paramsOf: () => Params, model: Pretrained, name: string) => {
  const scorer = makeScorer(model.config)
  const versions = new Set<number>()
  let gap = 0
  for (let probe = 0; probe < PROBES; probe++) {
    const prompt = Int32Array.from({ length: 5 + probe }, (_, t) => (17 * t + 31 * probe) % model.config.vocabularySize)
    const sampling = {
      ...DEFAULT_SAMPLING,
      n: 2,
      maxTokens: 8,
      temperature: TEMPERATURE,
      key: child(root, `${name} ${probe}`),
    }
    const rows: number[][] = [[], []]
    const told: number[][] = [[], []]
    const events: AsyncIterable<GenerationEvent> = client.generate({
      id: `${name}-${probe}`,
      prompt,
      sampling,
      adapter: null,
      cacheSalt: '',
    })
    for await (const event of events) {
      if (event._tag === 'Failed') throw new Error(event.failure.reason)
      if (event._tag !== 'Tokens') continue
      for (const token of event.tokens) {
        versions.add(token.version)
        rows[event.index]!.push(token.id)
        told[event.index]!.push(token.temperedLogProb)
      }
    }
    const prompts = rows.map(() => Array.from(prompt))
    const own = scope(() => scorer.score(paramsOf(), { prompts, completions: rows, temperature: TEMPERATURE }))
    for (const [i, row] of told.entries())
      for (const [t, x] of row.entries()) gap = Math.max(gap, Math.abs(x - own[i]![t]!))
  }
  scorer.release()
  return { gap, versions: [...versions] }
}

const isRight = ({ gap, versions }: { readonly gap: number; readonly versions: readonly number[] }, version: number) =>
  gap <= LIMIT && versions.length === 1 && versions[0] === version ? 'ok' : 'wrong'

const checkServer = async (release: 'new' | 'old', model: Pretrained, folder: string): Promise<void> => {
  const server = await startServer(release)
  const client = sglangClient({ url: server.url, maxCallBytes: 2 ** 20 })
  const begun = orThrow(await client.connect())
  report({ release, server: begun.server, logProbs: begun.logProbs }, begun.logProbs === 'tempered' ? 'ok' : 'wrong')
  const measure = async (what: string, arrays: ReadonlyMap<string, PlainArray>, version: number): Promise<void> => {
    const result = await gapOf(client, () => makeParams(arrays), model, `${release} ${what}`)
    report({ release, what, version, ...result }, isRight(result, version))
  }
  try {
    let arrays = plain(model)
    await measure('as loaded', arrays, 0)
    for (let version = 1; version <= UPDATES; version++) {
      arrays = moved(arrays, child(root, version))
      const isFolder = version % 5 === 0
      const place = join(folder, `${release}-${version}`)
      if (isFolder) orThrow(await liveFiles.writeFolder(place, pretrainedFiles({ ...model, arrays }))())
      orThrow(await client.pause({ mode: 'wait', cache: 'clear' })())
      const source = isFolder ? ({ _tag: 'Folder', path: place } as const) : ({ _tag: 'Arrays', arrays } as const)
      orThrow(await client.loadWeights(source, { version })())
      orThrow(await client.resume())
      client.serve({ version, adapter: null, cacheSalt: `v${version}` })
      await measure(isFolder ? 'folder' : 'tensors', arrays, version)
    }
    const lora = loraConfig({ rank: 4, alpha: 6 })
    for (let version = UPDATES + 1; version <= UPDATES + 3; version++) {
      const adapter = randomAdapter(model.config, lora, child(root, version))
      const name = `policy-v${version}`
      orThrow(await client.loadAdapter(name, adapterWeights(adapter))())
      client.serve({ version, adapter: name, cacheSalt: '' })
      const adapted = (): Params =>
        mergeLora(model.config, makeParams(arrays), { config: lora, tensors: makeParams(adapter.arrays) })
      const result = await gapOf(client, adapted, model, name)
      report({ release, what: 'adapter', version, ...result }, isRight(result, version))
    }
    const state = orThrow(await client.state())
    report(
      { release, what: 'state', ...state },
      state.version === UPDATES && state.adapters.length === 3 ? 'ok' : 'wrong',
    )
  } finally {
    await client.close()
    server.stop()
  }
}

const checkServers = async (): Promise<void> => {
  await selectBackend()
  const model = orThrow(await loadPretrained(MODEL)())
  const folder = mkdtempSync(join(tmpdir(), 'tandem-sglang-'))
  try {
    for (const release of ['new', 'old'] as const) await checkServer(release, model, folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

checkPickles()
if (process.argv[3] !== 'pickles') await checkServers()
