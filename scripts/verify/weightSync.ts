/**
 * Pushes weights into a real server many times while requests run, as adapters and whole, and
 * compares all numbers with our own.
 *
 * `npm run verify -- weightSync` starts `tandem serve` on the model folder and checks that. A
 * server of your own is checked by `--url http://127.0.0.1:8133`: it must serve that folder in F32
 * under the name `policy`, with adapters, the development mode, and the folders of this machine.
 * For vLLM on CPUs, `--write-untied FOLDER` writes a copy of the model with an output projection
 * of its own; serve that, and add `--projection own`. Further options: `--folder
 * models/word-problems`, `--rounds 50`, `--how adapter,full`.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { vLLMUpdater } from '../../src/collectors/updaters/vLLMUpdater.js'
import { loadPretrained, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../../src/modules/pretrained/saveModel.js'
import { untieEmbeddings } from '../../src/modules/pretrained/untie.js'
import { vLLMClient } from '../../src/modules/remote/vllm/client.js'
import { startServe } from '../../test/kit/serveProcess.js'
import { fullVersions, loraVersions, type SyncRounds, syncRounds } from '../../test/kit/syncRounds.js'

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    model: { type: 'string', default: 'policy' },
    folder: { type: 'string', default: 'models/word-problems' },
    rounds: { type: 'string', default: '50' },
    how: { type: 'string', default: 'adapter,full' },
    projection: { type: 'string', default: 'as trained' },
    'write-untied': { type: 'string' },
  },
})

const quantile = (sorted: readonly number[], q: number): string =>
  (sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN).toFixed(0)

const tell = (how: string, rounds: number, result: SyncRounds): boolean => {
  const times = result.pushMs.toSorted((a, b) => a - b)
  console.log(
    `${how}: ${rounds} updates, time p50 ${quantile(times, 0.5)} ms, max ${quantile(times, 1)} ms; worst gap of 20 probes ` +
      `${result.worstProbeGap.toExponential(1)} nats; ${result.samples} samples of ${result.versions.size} versions, ` +
      `${result.mixed} mixed, ${result.failed} failed, worst gap to the version they are stamped with ${result.worstSampleGap.toExponential(1)} nats`,
  )
  return result.mixed + result.failed === 0 && result.worstProbeGap <= 1e-3 && result.worstSampleGap <= 1e-3
}

const projectionOf = (said: string): 'as trained' | 'own' => {
  if (said === 'own' || said === 'as trained') return said
  throw new Error(`--projection: expected own or 'as trained', got '${said}'`)
}

/** Rounds of each way at one server; whether all of its numbers were right. */
const check = async (url: string, { config, arrays, text }: Pretrained, shared: string): Promise<boolean> => {
  const start = join(shared, 'start')
  const projection = projectionOf(values.projection)
  cpSync(resolve(values.folder), start, { recursive: true })
  if (projection === 'own')
    orThrow(await liveFiles.writeFolder(start, pretrainedFiles(untieEmbeddings({ config, arrays, text })))())
  const rounds = Number(values.rounds)
  let isGood = true
  for (const how of values.how.split(',')) {
    if (how !== 'adapter' && how !== 'full') throw new Error(`--how: expected adapter or full, got '${how}'`)
    const client = vLLMClient({ url, model: values.model, sharedFolder: shared })
    const { server } = orThrow(await client.connect())
    const updater = vLLMUpdater({
      ...{ clients: [client], how },
      model: { config, checkpoints: { folder: shared, text, projection } },
      start: { version: 0, source: { _tag: 'Folder', path: start } },
    })
    console.log(`${server} at ${url}`)
    console.log(JSON.stringify(await updater.recover()))
    const versions = how === 'adapter' ? loraVersions(config, arrays) : fullVersions(config, arrays)
    const result = await syncRounds(versions, { clients: [client], updater }, { rounds, parallel: 8 })
    isGood = tell(how, rounds, result) && isGood
    updater.release()
    await client.close()
  }
  return isGood
}

const main = async (): Promise<boolean> => {
  await selectBackend()
  const model = orThrow(await loadPretrained(resolve(values.folder))())
  const copy = values['write-untied']
  if (copy !== undefined) {
    orThrow(await liveFiles.writeFolder(resolve(copy), pretrainedFiles(untieEmbeddings(model)))())
    return true
  }
  const shared = mkdtempSync(join(tmpdir(), 'tandem-sync-'))
  const own = values.url === undefined ? await startServe(resolve(values.folder), values.model) : null
  try {
    return await check(values.url ?? own!.url, model, shared) // one of the two is there
  } finally {
    await own?.stop()
    rmSync(shared, { recursive: true, force: true })
  }
}

if (!(await main())) {
  console.error('weightSync: a server has other weights than it should')
  process.exitCode = 1
}
