/** The training that `tandem train --learner tinker` opens. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { openTrainer } from '@tandem-rl/tinker/command'
import { expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { useEngine } from '../../../test/kit/engine.js'
import { byteConfig } from '../../../test/kit/small.js'
import { tinkerServer } from '../../../test/kit/tinker.js'

useEngine()

it('sends nothing about a new model, because servers load a checkpoint only as its first request', async () => {
  const app = tinkerServer()
  const paths: string[] = []
  const answer = (request: Request): Promise<Response> => {
    paths.push(new URL(request.url).pathname)
    return app.fetch(request)
  }
  const server = orThrow(await liveHttpServer(answer, { port: 0, refusal: (_, reason) => reason })())
  const open = openTrainer({ url: server.url, baseModel: 'toy' })
  const opened = await open({
    config: byteConfig(),
    loss: policyLoss(),
    optimizer: adamW({ learningRate: 1e-3 }),
    key: keyFromSeed(0),
    passes: {},
    maxGradNorm: 1,
    lora: 2,
    maxTokens: 4,
    offPolicy: {},
  })
  await opened.close()
  await server.close({ graceMs: 0, atLimit: async () => {} })
  await app.close()
  expect(paths).toContain('/api/v1/create_model')
  expect(paths.filter((path) => path.endsWith('/save_weights_for_sampler'))).toEqual([])
})
