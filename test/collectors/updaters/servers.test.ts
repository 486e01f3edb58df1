/** Pushes into `tandem serve` over real sockets, one of whose servers dies in the middle of one. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, describe, expect, it } from 'vitest'
import { vLLMUpdater } from '../../../src/collectors/updaters/vLLMUpdater.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { loadAdapter } from '../../../src/modules/lora/peft.js'
import { adapterWeights } from '../../../src/modules/lora/weights.js'
import { hostArrays, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { vLLMClient } from '../../../src/modules/remote/vllm/client.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { useEngine } from '../../kit/engine.js'
import { faultProxy } from '../../kit/faultProxy.js'
import { served, useServers } from '../../kit/served.js'
import { byteConfig, byteText } from '../../kit/small.js'
import { fullVersions, loraVersions, syncRounds } from '../../kit/syncRounds.js'

useEngine()

const config = byteConfig()
const shared = mkdtempSync(join(tmpdir(), 'tandem-servers-'))
const listen = useServers()
afterAll(() => rmSync(shared, { recursive: true, force: true }))

const base = () => scope(() => hostArrays(initialParams(config, keyFromSeed(1), 0.5)))

/** A server of the small decoder behind a proxy, and our client of it. */
const serverOf = async (arrays: ReturnType<typeof hostArrays>) => {
  const engine = scope(() => modelEngine({ config, params: makeParams(arrays), limits: { memoryBytes: 2 ** 22 } }))
  const readAdapter = (path: string) =>
    pipe(
      loadAdapter(path, config),
      TE.map(({ adapter }) => adapterWeights(adapter)),
    )
  const app = served(engine, {
    model: { names: ['policy'], root: shared },
    text: byteText(),
    features: { control: 'on', readAdapter },
  })
  const { url } = await listen(app)
  const proxy = await faultProxy(url)
  const transport = liveTransport({ url: proxy.url, retry: { baseMs: 1, capMs: 2 }, circuit: { failures: 99 } })
  const client = vLLMClient({ transport, model: 'policy', sharedFolder: shared })
  const close = async () => {
    await client.close()
    await transport.close()
    await proxy.close()
    await engine.close()
  }
  return { proxy, client, close }
}

describe('vLLMUpdater on tandem serve', () => {
  it.each(['adapter', 'full'] as const)('%s: 3 updates, each verified, while 8 requests run', async (how) => {
    const arrays = base()
    const { client, close } = await serverOf(arrays)
    const checkpoints = { folder: shared, text: byteText() }
    const updater = vLLMUpdater({ clients: [client], how, model: { config, checkpoints } })
    const versions = how === 'adapter' ? loraVersions(config, arrays) : fullVersions(config, arrays)
    const rounds = await syncRounds(versions, { clients: [client], updater }, { rounds: 3, parallel: 8 })
    expect([rounds.mixed, rounds.failed]).toEqual([0, 0])
    expect(rounds.worstProbeGap).toBeLessThan(1e-3)
    expect(rounds.worstSampleGap).toBeLessThan(1e-3)
    expect(rounds.versions.size).toBeGreaterThan(2)
    updater.release()
    await close()
  })

  it('leaves both servers on the old weights when one dies in the middle of a push, and has both again later', async () => {
    const arrays = base()
    const [one, two] = await Promise.all([serverOf(arrays), serverOf(arrays)])
    const updater = vLLMUpdater({
      clients: [one.client, two.client],
      how: 'full',
      sync: { onLost: 'fail' },
      model: { config, checkpoints: { folder: shared, text: byteText() } },
    })
    const versions = fullVersions(config, arrays)
    using weights = own(scope(() => [1, 2, 3].map((version) => versions.weights(version))))
    requireRight(await updater.push(weights.value[0]!, 1)())
    two.proxy.setFault(({ path }) =>
      path === '/collective_rpc' ? { _tag: 'Kill', kill: () => two.proxy.refuse() } : undefined,
    )
    const { report } = requireLeft(await updater.push(weights.value[1]!, 2)())
    expect(report!.servers.map(({ outcome }) => outcome)).toEqual(['restored', 'lost'])
    expect(requireRight(await one.client.state())).toMatchObject({ version: 1, isPaused: false })
    two.proxy.setFault(() => undefined)
    await two.proxy.accept()
    expect(requireRight(await updater.reconcile(two.client)())).toBe(1)
    expect(requireRight(await two.client.state())).toMatchObject({ version: 1, isPaused: false })
    requireRight(await updater.push(weights.value[2]!, 3)())
    updater.release()
    for (const { close } of [one, two]) await close()
  })
})
