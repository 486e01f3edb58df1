/**
 * For those who start training from the command line: `tandem train --learner tinker` trains and
 * samples on a server by this module.
 *
 * @module
 */
import { child, redact, uniform } from '@tandem-rl/base'
import { type OpenTrainer, orFail, reminded } from 'tandem-rl/command'
import { measureGradients } from './client/measureGradients.js'
import { tinkerClient } from './client/tinkerClient.js'
import { tokenCosts } from './client/tokenCosts.js'
import { tinkerLearner } from './learner/tinkerLearner.js'
import { tinkerPolicy } from './learner/tinkerPolicy.js'

/** Seeds of adapters that servers accept. */
const SEEDS = 2 ** 31

/** Trains and samples on a Tinker server. Its key is in the variable TINKER_API_KEY. */
export const openTrainer: OpenTrainer =
  ({ url, baseModel, prices, checkpointTtl, wire }) =>
  async ({ config, loss, optimizer, key, passes, maxGradNorm, lora, maxTokens, offPolicy }) => {
    const apiKey = process.env.TINKER_API_KEY
    const keeping = checkpointTtl === undefined ? {} : { checkpointSeconds: checkpointTtl }
    const client = tinkerClient({ url, ...(apiKey && { apiKey }), ...(wire && { wire }) })
    const session = await reminded(`waiting for the server ${redact(url)}`, () => orFail(client.session()))
    const gradients = await reminded(`measuring gradients of ${baseModel}`, () =>
      orFail(measureGradients(session, { baseModel })),
    )
    const seed = Math.floor(uniform(child(key, 'adapter'), 0) * SEEDS)
    const adapter = lora === null ? null : { rank: lora, seed }
    const trainer = await reminded(`waiting for a trainer of ${baseModel}`, () =>
      orFail(session.trainer({ baseModel, gradients, lora: adapter })),
    )
    const { vocabularySize, endTokens, maxPositions: maxLength } = config
    const model = { vocabularySize, endTokens, maxLength }
    const sampling = { temperature: 1, maxTokens }
    // A new adapter changes nothing, and servers load a checkpoint only as a model's first request.
    const source = session.server.baseSampler === 'absent' ? trainer.sampler() : session.sampler({ baseModel })
    const sampler = await orFail(source)
    const { policy, updater } = tinkerPolicy({ sampler, trainer, model, sampling })
    const base = tinkerPolicy({ sampler, model, name: 'tinker base' })
    return {
      policy,
      updater,
      reference: base.policy,
      at: ({ temperature }) => policy.withSampling({ temperature, maxTokens }),
      learner: tinkerLearner({ trainer, baseModel, loss, optimizer, key, passes, maxGradNorm, offPolicy, ...keeping }),
      metrics: tokenCosts(client, prices),
      close: async () => {
        await session.close()
        await client.close()
      },
    }
  }
