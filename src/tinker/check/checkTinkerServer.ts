/** Checks what a Tinker server computes: the conformance kit. */
import { cell } from '../../core/cell.js'
import { FailureError, orThrow } from '../../core/failure.js'
import { aFunction, aList, aNumber, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import { liveWebFetch } from '../../live/transport/webFetch.js'
import type { TinkerFailure, TinkerFetch } from '../client/calls.js'
import { type TinkerClientOptions, type TinkerSession, tinkerClient } from '../client/tinkerClient.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { CHECKS } from './checks.js'
import type { Bench, CheckOutcome, Repeater, TinkerCheck } from './measure.js'

/** The server to check. */
export interface TinkerCheckOptions extends Pick<TinkerClientOptions, 'url' | 'apiKey' | 'fetch'> {
  /** Default: the first model that the server lists. */
  readonly baseModel?: string
  /** Names of checks to run. Default: all. */
  readonly checks?: readonly string[]
  /** Milliseconds for one request with its repetitions. Default 120,000. */
  readonly deadlineMs?: number
}

const OPTIONS: OptionKinds<TinkerCheckOptions> = {
  ...{ url: aText, apiKey: aText, fetch: aFunction, baseModel: aText, checks: aList, deadlineMs: aNumber },
}

/** Sends POST requests twice while the repeater is on, with the same idempotency key. */
const repeating =
  (fetch: TinkerFetch, repeater: Repeater): TinkerFetch =>
  async (url, init) => {
    if (repeater.get() === 2 && init.method === 'POST' && /(forward_backward|optim_step)$/.test(url))
      await fetch(url, init)
    return fetch(url, init)
  }

const failedOutcome = (error: unknown): CheckOutcome => {
  if (!(error instanceof FailureError)) throw error
  const failure = error.failure as Partial<TinkerFailure> // every failure has a tag
  const isAbsent = failure.kind === 'unsupported'
  const { status } = failure
  return {
    verdict: isAbsent ? 'not supported' : 'failed',
    finding: error.message,
    numbers: status === undefined ? {} : { status },
  }
}

/** Runs one check, and frees the models that it made. */
const runCheck = async (
  check: string,
  {
    session,
    baseModel,
    ...rest
  }: Omit<Bench, 'model'> & { readonly session: TinkerSession; readonly baseModel: string },
): Promise<TinkerCheck> => {
  const made: TinkerTrainer[] = []
  const model = async (): Promise<TinkerTrainer> => {
    const trainer = orThrow(await session.trainer({ baseModel, lora: { rank: 8, seed: 0 } })())
    made.push(trainer)
    return trainer
  }
  try {
    return { check, ...(await CHECKS[check]!({ ...rest, session, model })) }
  } catch (error) {
    return { check, ...failedOutcome(error) }
  } finally {
    for (const trainer of made) await trainer.unload()() // a server without it frees models with the session
  }
}

/**
 * Checks what a Tinker server computes, check by check: scale of gradients, clipping, order,
 * alignment and drift of log-probabilities, checkpoints, repeated requests and errors.
 *
 * Errors   throws FailureError if the server cannot be reached or has no model. A check that fails
 *          has the verdict `failed` and the reason as its finding.
 * Effects  trains small adapters on the server, and leaves two checkpoints.
 */
export async function* checkTinkerServer(options: TinkerCheckOptions): AsyncGenerator<TinkerCheck> {
  checkOptions('checkTinkerServer', options, OPTIONS)
  const { fetch: given, baseModel, checks = Object.keys(CHECKS), deadlineMs = 120_000, ...rest } = options
  const unknown = checks.find((each) => CHECKS[each] === undefined)
  if (unknown !== undefined) throw new RangeError(`checkTinkerServer: there is no check '${unknown}'`)
  const repeater: Repeater = cell(1)
  const web = given === undefined ? liveWebFetch({ maxBytes: 2 ** 28 }) : undefined
  const fetch = repeating(given ?? ((url, init) => web!.fetch(url, init)), repeater)
  const client = tinkerClient({ ...rest, deadlineMs, fetch })
  try {
    const models = orThrow(await client.models()())
    const chosen = models.find(({ name }) => baseModel === undefined || name === baseModel)
    const session = orThrow(await client.session()())
    try {
      const about = { baseModel: baseModel ?? chosen?.name ?? '', maxContextLength: chosen?.maxContextLength ?? null }
      for (const check of checks) yield await runCheck(check, { ...about, session, repeater })
    } finally {
      await session.close()
    }
  } finally {
    await client.close()
    await web?.close()
  }
}
