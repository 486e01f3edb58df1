/**
 * Pushes weights into a real server many times while requests run, as adapters and whole, and compares all numbers with our own.
 *
 * `npm run check:weight-sync -- --url http://127.0.0.1:8133 [--model policy] [--folder models/word-problems] [--rounds 50] [--how adapter,full]`.
 * The server must serve that folder in F32, with adapters, the development mode, and a folder of this machine that both see.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { vLLMUpdater } from '../src/collectors/updaters/vLLMUpdater.js'
import { orThrow } from '../src/core/failure.js'
import { selectBackend } from '../src/engine/select.js'
import { loadPretrained } from '../src/modules/pretrained.js'
import { vLLMClient } from '../src/modules/remote/vllm/client.js'
import { fullVersions, loraVersions, type SyncRounds, syncRounds } from '../test/kit/syncRounds.js'

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    model: { type: 'string', default: 'policy' },
    folder: { type: 'string', default: 'models/word-problems' },
    rounds: { type: 'string', default: '50' },
    how: { type: 'string', default: 'adapter,full' },
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

const main = async (url: string): Promise<boolean> => {
  await selectBackend()
  const shared = mkdtempSync(join(tmpdir(), 'tandem-sync-'))
  const folder = resolve(values.folder)
  const { config, arrays, text } = orThrow(await loadPretrained(folder)())
  const start = join(shared, 'start')
  cpSync(folder, start, { recursive: true })
  const rounds = Number(values.rounds)
  let isGood = true
  try {
    for (const how of values.how.split(',')) {
      if (how !== 'adapter' && how !== 'full') throw new Error(`--how: expected adapter or full, got '${how}'`)
      const client = vLLMClient({ url, model: values.model, sharedFolder: shared })
      const { server } = orThrow(await client.connect())
      const updater = vLLMUpdater({
        ...{ clients: [client], how },
        model: { config, checkpoints: { folder: shared, text } },
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
  } finally {
    rmSync(shared, { recursive: true, force: true })
  }
  return isGood
}

if (values.url === undefined) {
  console.error('check:weight-sync: --url is missing: the address of a server that serves the model folder')
  process.exitCode = 2
} else if (!(await main(values.url))) {
  console.error('check:weight-sync: a server has other weights than it should')
  process.exitCode = 1
}
