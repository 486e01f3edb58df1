/** `tandem train --learner tinker`: training and sampling on a Tinker server. */
import { child, parseJsonAs, redact, uniform } from '@tandem-rl/base'
import { InvalidArgumentError, Option } from 'commander'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { OpenTraining } from '../run/parts/remoteTraining.js'
import { measureGradients } from '../tinker/client/measureGradients.js'
import { tinkerClient } from '../tinker/client/tinkerClient.js'
import type { TinkerWire } from '../tinker/client/trainer.js'
import { tinkerLearner } from '../tinker/learner/tinkerLearner.js'
import { tinkerPolicy } from '../tinker/learner/tinkerPolicy.js'
import { type TokenPrices, tokenCosts, tokenPricesSchema } from '../tinker/learner/tokenCosts.js'
import { CommandError, orFail } from './failure.js'
import { checkServerUrl } from './options.js'
import { reminded } from './reminder.js'

/** Seeds of adapters that servers accept. */
const SEEDS = 2 ** 31

/** The flags of the server that trains. */
export interface RemoteFlags {
  readonly learner?: 'tinker'
  readonly url?: string
  readonly baseModel?: string
  readonly prices?: TokenPrices
  readonly checkpointTtl?: number
  readonly wire?: TinkerWire
}

const readPrices = (text: string): TokenPrices => {
  const read = parseJsonAs(tokenPricesSchema, text)
  if (isLeft(read))
    throw new InvalidArgumentError(`the prices are not {"sent":0.1,"sampled":0.3,"trained":0.4}: ${read.left}`)
  return read.right
}

const readSeconds = (text: string): number => {
  const seconds = Number(text)
  if (Number.isSafeInteger(seconds) && seconds > 0) return seconds
  throw new InvalidArgumentError('it must be a whole number above 0')
}

/** The form of losses that are sent to a server. */
export const wireOption = (): Option =>
  new Option('--wire <form>', 'form of losses (default: json, or protobuf if the server refuses it)').choices([
    'json',
    'protobuf',
  ])

/** The options of the server that trains. */
export const remoteOptions = (): readonly Option[] => [
  new Option('--learner <kind>', 'train and sample on a server (default: in this process)').choices(['tinker']),
  new Option('--url <url>', 'address of the server of --learner').env('TINKER_BASE_URL'),
  new Option('--base-model <name>', 'name of the model on the server of --learner'),
  new Option('--prices <json>', 'prices of a million tokens: {"sent":0.1,"sampled":0.3,"trained":0.4}').argParser(
    readPrices,
  ),
  new Option(
    '--checkpoint-ttl <seconds>',
    'seconds for which the server keeps the checkpoint of an update (default: without end)',
  ).argParser(readSeconds),
  wireOption(),
]

/**
 * Builds a run whose recipe opens the training of the flags.
 *
 * Errors   throws CommandError if the recipe does not open it, because it would train here.
 */
export const openedBy = async <R extends { readonly close: () => Promise<void> }>(
  training: OpenTraining | undefined,
  build: (context: { readonly training?: OpenTraining }) => Promise<R>,
): Promise<R> => {
  if (training === undefined) return build({})
  let isOpened = false
  const run = await build({
    training: (request) => {
      isOpened = true
      return training(request)
    },
  })
  if (isOpened) return run
  await run.close()
  throw new CommandError('this recipe trains in this process: --learner needs a recipe that uses grpoParts')
}

/**
 * Returns the training of the flags; undefined without `--learner`. The key of the server is in the
 * variable TINKER_API_KEY.
 */
export const remoteTraining = ({
  learner,
  url,
  baseModel,
  prices,
  checkpointTtl,
  wire,
}: RemoteFlags): OpenTraining | undefined => {
  if (learner === undefined) {
    const flags = { '--base-model': baseModel, '--prices': prices, '--checkpoint-ttl': checkpointTtl, '--wire': wire }
    const given = Object.entries(flags).find(([, value]) => value !== undefined)
    if (given !== undefined) throw new CommandError(`${given[0]} needs --learner tinker`)
    return undefined
  }
  if (url === undefined || baseModel === undefined)
    throw new CommandError('--learner tinker needs --url and --base-model')
  checkServerUrl('--url', url)
  return async ({ config, loss, optimizer, key, passes, maxGradNorm, lora, maxTokens, offPolicy }) => {
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
}
