/**
 * Options of training on a server. The clients of servers are in other packages, such as
 * `@tandem-rl/tinker`.
 */
import { parseJsonAs } from '@tandem-rl/base'
import { InvalidArgumentError, Option } from 'commander'
import { isLeft } from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { OpenTraining } from '../run/parts/remoteTraining.js'
import { CommandError } from './failure.js'
import { importGuest } from './guest.js'
import { checkServerUrl, positiveInteger } from './options.js'

const price = z.number().nonnegative()

/** Prices of a million tokens. */
const pricesSchema = z.strictObject({ sent: price, sampled: price, trained: price })

/** The server that trains, and how it is used. */
export interface TrainerFlags {
  readonly url: string
  readonly baseModel: string
  readonly prices?: z.infer<typeof pricesSchema>
  readonly checkpointTtl?: number
  readonly wire?: 'json' | 'protobuf'
}

/** Returns the training on a server. Its key is in the environment. */
export type OpenTrainer = (flags: TrainerFlags) => OpenTraining

/** The flags of training on a server. */
export interface RemoteFlags extends Partial<TrainerFlags> {
  readonly learner?: 'tinker'
}

const readPrices = (text: string): TrainerFlags['prices'] => {
  const read = parseJsonAs(pricesSchema, text)
  if (isLeft(read))
    throw new InvalidArgumentError(`the prices are not {"sent":0.1,"sampled":0.3,"trained":0.4}: ${read.left}`)
  return read.right
}

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
  ).argParser(positiveInteger),
  new Option('--wire <form>', 'form of losses (default: json, or protobuf if the server refuses it)').choices([
    'json',
    'protobuf',
  ]),
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
 * Returns the training of the flags; undefined without `--learner`.
 *
 * Errors   rejects with CommandError for flags that do not fit each other, and if the package of
 *          the server's client is not installed.
 */
export const remoteTraining = async ({ learner, ...flags }: RemoteFlags): Promise<OpenTraining | undefined> => {
  const { url, baseModel, prices, checkpointTtl, wire } = flags
  if (learner === undefined) {
    const others = { '--base-model': baseModel, '--prices': prices, '--checkpoint-ttl': checkpointTtl, '--wire': wire }
    const given = Object.entries(others).find(([, value]) => value !== undefined)
    if (given !== undefined) throw new CommandError(`${given[0]} needs --learner tinker`)
    return undefined
  }
  if (url === undefined || baseModel === undefined)
    throw new CommandError('--learner tinker needs --url and --base-model')
  checkServerUrl('--url', url)
  const path = '@tandem-rl/tinker/command'
  const { openTrainer } = await importGuest<{ readonly openTrainer: OpenTrainer }>(path, '--learner tinker')
  return openTrainer({ ...flags, url, baseModel })
}
