/** Known differences of servers from the protocol, which the client corrects or refuses. */
import { type Either, isLeft, right } from 'fp-ts/lib/Either.js'
import { type Calls, replyJson, type TinkerFailure } from './calls.js'

/** Known properties of a server. */
export interface TinkerServer {
  readonly name: 'unknown' | 'Tinker' | 'Tandem' | 'SkyRL' | 'Open-RL'
  /** Of `grad_clip_norm`. If it is ignored, `tinkerLearner` refuses a finite `maxGradNorm`. */
  readonly clipping: 'applied' | 'ignored'
  /** Settings that are sent with those of every adapter. */
  readonly lora: Readonly<Record<string, number | boolean>>
  /** Settings that are sent with every request to save a checkpoint. */
  readonly saving: Readonly<Record<string, boolean>>
  /** `unknown`: it may carry repeated requests out again, so lost answers are failures. */
  readonly repeats: 'recognized' | 'unknown'
  /** `absent`: there is no route `forward`, so gradients of weights of 0 are added up instead. */
  readonly forward: 'present' | 'absent'
  /** `absent`: only trained models sample, so a run starts with a sampler of its new adapter. */
  readonly baseSampler: 'present' | 'absent'
}

const UNKNOWN: TinkerServer = {
  name: 'unknown',
  clipping: 'applied',
  lora: {},
  saving: {},
  repeats: 'unknown',
  forward: 'present',
  baseSampler: 'present',
}

/** The known servers. `Tinker` is the hosted service, and `Tandem` our own server. */
export const KNOWN_SERVERS: Readonly<Record<TinkerServer['name'], TinkerServer>> = {
  unknown: UNKNOWN,
  Tinker: { ...UNKNOWN, name: 'Tinker', repeats: 'recognized' },
  Tandem: { ...UNKNOWN, name: 'Tandem', repeats: 'recognized' },
  SkyRL: { ...UNKNOWN, name: 'SkyRL', clipping: 'ignored' },
  'Open-RL': {
    ...UNKNOWN,
    name: 'Open-RL',
    // By default it drops 5 % of an adapter's inputs, and trains the output layer of all models.
    lora: { lora_dropout: 0, train_unembed: false },
    saving: { include_optimizer: true },
    forward: 'absent',
    baseSampler: 'absent',
  },
}

const hasEntry = (json: unknown, name: string, value?: unknown): boolean =>
  typeof json === 'object' &&
  json !== null &&
  name in json &&
  (value === undefined || (json as Readonly<Record<string, unknown>>)[name] === value) // it has the entry

const HOSTED = /(^|\.)thinkingmachines\.dev$/

/**
 * Recognizes a server by its address or its own description.
 *
 * Errors   `Left` if the server does not answer. Refusals are answers.
 */
export const recognizeServer = async (calls: Calls): Promise<Either<TinkerFailure, TinkerServer>> => {
  if (HOSTED.test(new URL(calls.options.url).hostname)) return right(KNOWN_SERVERS.Tinker)
  const capabilities = await calls.send({ path: '/get_server_capabilities', method: 'GET', effect: 'none' })
  if (isLeft(capabilities)) return capabilities
  if (hasEntry(replyJson(capabilities.right), 'single_process')) return right(KNOWN_SERVERS['Open-RL'])
  const root = await calls.send({ path: '/', base: 'server', method: 'GET', effect: 'none' })
  if (isLeft(root)) return root
  if (hasEntry(replyJson(root.right), 'name', 'Tinker API Mock')) return right(KNOWN_SERVERS.SkyRL)
  const health = await calls.send({ path: '/healthz', method: 'GET', effect: 'none' })
  if (isLeft(health)) return health
  return right(hasEntry(replyJson(health.right), 'server', 'tandem') ? KNOWN_SERVERS.Tandem : UNKNOWN)
}
