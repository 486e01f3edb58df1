/** Checks what a Tinker server computes: the conformance kit. */
import { cell, checkOptions, FailureError, orThrow } from '@tandem-rl/base'
import { liveWebFetch } from '@tandem-rl/host'
import type { TinkerFailure, TinkerFetch } from '../client/calls.js'
import {
  type TinkerClient,
  type TinkerClientOptions,
  type TinkerSession,
  tinkerClient,
} from '../client/tinkerClient.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { CHECK_TINKER_SERVER_OPTIONS } from '../optionKinds.js'
import { GRADIENT_CHECKS } from './gradientChecks.js'
import type { Bench, CheckOutcome, Repeater, TinkerCheck } from './measure.js'
import { REQUEST_CHECKS } from './requestChecks.js'
import { SAMPLER_CHECKS } from './samplerChecks.js'

/** Every check of the kit, in order. */
const CHECKS: Readonly<Record<string, (bench: Bench) => Promise<CheckOutcome>>> = {
  ...GRADIENT_CHECKS,
  ...SAMPLER_CHECKS,
  ...REQUEST_CHECKS,
}

/** The server to check. */
export interface TinkerCheckOptions extends Pick<TinkerClientOptions, 'url' | 'apiKey' | 'fetch' | 'server' | 'wire'> {
  /** Default: the first model that the server lists. */
  readonly baseModel?: string
  /** Names of checks to run. Default: all. */
  readonly checks?: readonly string[]
  /** Milliseconds for one request with its repetitions. Default 120,000. */
  readonly deadlineMs?: number
  /** Milliseconds after which a result is fetched, to see whether it is held. Default 5,000. */
  readonly futureMs?: number
}

/** Time limit of one request of a check. */
const POST_MS = 90_000

/** Sends the requests of a route twice, with the same number and idempotency key. */
const repeating =
  (fetch: TinkerFetch, repeater: Repeater): TinkerFetch =>
  async (url, init) => {
    if (url.endsWith(`/${repeater.get()}`)) await fetch(url, init)
    return fetch(url, init)
  }

const jsonOrNothing = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the check names the answer
  }
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

/** Shared parts of the checks of a server. */
interface Shared extends Omit<Bench, 'model' | 'otherModel'> {
  readonly session: TinkerSession
  readonly otherSession: () => Promise<TinkerSession>
  readonly baseModel: string
}

/** Runs one check, and frees the models that it made. */
const runCheck = async (check: string, { session, otherSession, baseModel, ...rest }: Shared): Promise<TinkerCheck> => {
  const made: TinkerTrainer[] = []
  const modelOf = async (on: TinkerSession, rank = 8): Promise<TinkerTrainer> => {
    const trainer = orThrow(await on.trainer({ baseModel, lora: { rank, seed: 0 } })())
    made.push(trainer)
    return trainer
  }
  const model: Bench['model'] = (options) => modelOf(session, options?.rank)
  const otherModel = async (): Promise<TinkerTrainer> => modelOf(await otherSession())
  try {
    return { check, ...(await CHECKS[check]!({ ...rest, model, otherModel })) }
  } catch (error) {
    return { check, ...failedOutcome(error) }
  } finally {
    for (const trainer of made) await trainer.unload()() // a server without it frees models with the session
  }
}

/** Sends one JSON request, whose answer may have any status. */
const posting =
  (fetch: TinkerFetch, { url, apiKey = 'tml-none' }: TinkerCheckOptions): Bench['post'] =>
  async (path, body) => {
    const reply = await fetch(`${url.replace(/\/+$/, '')}/api/v1${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': apiKey },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(POST_MS),
    })
    return { status: reply.status, body: jsonOrNothing(await reply.text()) }
  }

/**
 * Checks what a Tinker server computes, check by check: sums of gradients, clipping, the scale of
 * adapters, log-probabilities of sampler and trainer, checkpoints, order and repetition of
 * requests, futures, clients at a time and errors.
 *
 * Errors   throws FailureError if the server cannot be reached or has no model. A check that fails
 *          has the verdict `failed` and the reason as its finding.
 * Effects  trains small adapters on the server, and leaves two checkpoints.
 */
export async function* checkTinkerServer(options: TinkerCheckOptions): AsyncGenerator<TinkerCheck> {
  checkOptions('checkTinkerServer', options, CHECK_TINKER_SERVER_OPTIONS)
  const { fetch: given, baseModel, checks = Object.keys(CHECKS), deadlineMs = 120_000, ...others } = options
  const { futureMs = 5000, ...rest } = others
  const unknown = checks.find((each) => CHECKS[each] === undefined)
  if (unknown !== undefined) throw new RangeError(`checkTinkerServer: there is no check '${unknown}'`)
  const repeater: Repeater = cell<ReturnType<Repeater['get']>>('none')
  const web = given === undefined ? liveWebFetch({ maxBytes: 2 ** 28 }) : undefined
  const plain: TinkerFetch = given ?? ((url, init) => web!.fetch(url, init))
  const [client, otherClient] = [0, 1].map(() =>
    tinkerClient({ ...rest, deadlineMs, fetch: repeating(plain, repeater) }),
  ) as [TinkerClient, TinkerClient] // of two
  const sessions: TinkerSession[] = []
  const opened = async (by: TinkerClient): Promise<TinkerSession> => {
    const session = orThrow(await by.session()())
    sessions.push(session)
    return session
  }
  let other: Promise<TinkerSession> | undefined
  const otherSession = (): Promise<TinkerSession> => {
    other ??= opened(otherClient)
    return other
  }
  try {
    const models = orThrow(await client.models()())
    const chosen = models.find(({ name }) => baseModel === undefined || name === baseModel)
    const shared: Shared = {
      session: await opened(client),
      otherSession,
      repeater,
      post: posting(plain, options),
      futureMs,
      rate: cell<number | null>(null),
      baseModel: baseModel ?? chosen?.name ?? '',
      maxContextLength: chosen?.maxContextLength ?? null,
    }
    for (const check of checks) yield await runCheck(check, shared)
  } finally {
    for (const session of sessions) await session.close()
    for (const each of [client, otherClient]) await each.close()
    await web?.close()
  }
}
