/** Sessions of a Tinker server in this process. */
import { orThrow } from '@tandem-rl/base'
import { type TinkerTrainer, tinkerClient } from '@tandem-rl/tinker'
import { loadWeights } from '../../src/modules/pretrained/pretrained.js'
import { tinkerServer } from './tinker.js'

/**
 * Runs a test on a session of a server in this process. `weights` saves those of a model and reads
 * them.
 */
export const tinkerConnected = async (
  test: (parts: {
    readonly session: Awaited<ReturnType<typeof openSession>>
    readonly weights: (trainer: TinkerTrainer, name: string) => Promise<ReadonlyMap<string, Float32Array>>
  }) => Promise<void>,
): Promise<void> => {
  const app = tinkerServer()
  const client = tinkerClient({ url: 'http://localhost', fetch: (url, init) => app.fetch(new Request(url, init)) })
  const session = await openSession(client)
  try {
    await test({
      session,
      weights: async (trainer, name) => {
        orThrow(await orThrow(await trainer.saveState(name)()).result())
        const { arrays } = orThrow(
          await loadWeights(`${app.checkpoints}/${trainer.modelId.replaceAll(':', '+')}/weights/${name}`)(),
        )
        return new Map([...arrays].map(([each, { data }]) => [each, Float32Array.from(data)]))
      },
    })
  } finally {
    await session.close()
    await app.close()
  }
}

const openSession = async (client: ReturnType<typeof tinkerClient>) => orThrow(await client.session()())

/** The largest difference of two sets of weights. */
export const weightGap = (a: ReadonlyMap<string, Float32Array>, b: ReadonlyMap<string, Float32Array>): number =>
  Math.max(
    ...[...a].map(([name, x]) => x.reduce((most, value, i) => Math.max(most, Math.abs(value - b.get(name)![i]!)), 0)),
  )
