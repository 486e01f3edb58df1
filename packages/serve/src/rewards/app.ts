/** A server of rewards in OpenRLHF's format, as a function from requests to responses. */
import { checkOptions, child, type Key, namedMessage } from '@tandem-rl/base'
import { warnThrown } from '@tandem-rl/base/host'
import { message } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { tf } from 'tandem-rl'
import { type EnvOfTask, endedRows } from 'tandem-rl/envs'
import { data, find, TensorDict } from 'tandem-rl/tensordict'
import { type Access, accessProblem } from '../access.js'
import { readJsonBytes } from '../bodies/body.js'
import { type BodyThread, readBody } from '../bodies/bodyThread.js'
import { REWARD_APP_OPTIONS } from '../optionKinds.js'
import { type ApiFailure, apiFailure, failureResponse, jsonResponse } from '../requests/failure.js'
import { rowThread, type ScoredRow, scoredRows } from './rows.js'

/** The options of a reward server. */
export interface RewardServerOptions {
  readonly env: EnvOfTask
  /** Key of environments that draw random numbers. */
  readonly key: Key
  /** Most completions of a request. Default 1,024. Each may have a million characters. */
  readonly maxRows?: number
  /** Largest request in bytes. Default 32 MiB. */
  readonly maxBodyBytes?: number
  readonly access?: Access
}

/** A reward server without a socket. */
export interface RewardApp {
  readonly fetch: (request: Request) => Promise<Response>
}

export const MAX_ROWS = 1024

interface Score {
  readonly reward: number
  readonly success: boolean
}

/** Plays the completion as the first turn of its task, and returns what it earned. */
const scoreOf = async (
  { env: envOf, key }: RewardServerOptions,
  { task, completion }: ScoredRow,
  signal: AbortSignal,
): Promise<E.Either<ApiFailure, Score>> => {
  const env = envOf(task)
  const failed = ({ reason }: { readonly reason: string }) => E.left(apiFailure(500, `row ${task.id}: ${reason}`))
  const first = await env.reset(TensorDict({}, [1]), child(key, task.id))()
  if (E.isLeft(first)) return failed(first.left)
  const made: TensorDict[] = [first.right]
  try {
    const action = TensorDict({ history: { response: data([message('assistant', completion)]) } }, [1])
    const next = await env.step(first.right, action, { signal })()
    if (E.isLeft(next)) return failed(next.left)
    const after = next.right as TensorDict // its further entries depend on the environment
    made.push(after)
    if (endedRows(after, 'done')[0] !== true)
      return E.left(apiFailure(422, `row ${task.id}: the environment has several turns, and a reward needs only one`))
    const reward = find(after, ['reward'])
    return E.right({
      reward: reward instanceof tf.Tensor ? reward.dataSync()[0]! : 0,
      success: endedRows(after, 'success')[0] === true,
    })
  } finally {
    env.release?.(made.at(-1)!)
    discard(made)
  }
}

const getReward = async (options: RewardServerOptions, request: Request, thread: BodyThread): Promise<Response> => {
  const { maxRows = MAX_ROWS, maxBodyBytes = 32 * 2 ** 20 } = options
  const body = await readJsonBytes(request, { maxBytes: maxBodyBytes })
  if (E.isLeft(body)) return failureResponse(body.left)
  const here = (json: unknown) => scoredRows(json, maxRows)
  const rows = await readBody(body.right, { thread, reader: 'rewards', here })
  if (E.isLeft(rows)) return failureResponse(rows.left)
  const scores: Score[] = []
  for (const row of rows.right) {
    const score = await scoreOf(options, row, request.signal)
    if (E.isLeft(score)) return failureResponse(score.left)
    scores.push(score.right)
  }
  const rewards = scores.map(({ reward }) => reward)
  const success = scores.map((score) => (score.success ? 1 : 0))
  return jsonResponse({ rewards, scores: rewards, extra_logs: { success } })
}

/**
 * Makes a server that scores completions for OpenRLHF: `POST /get_reward` with `query`, `prompts`
 * and `labels` returns `rewards`, `scores` and `extra_logs`.
 *
 * Each completion is the part of its query after the prompt, without end tokens. It is played as
 * the only turn of a task. A label is the reference answer, or a JSON object with the fields of the
 * task.
 *
 * Errors   every failure of a request is a response: 413 and 422 for what the client may change,
 *          500 if an environment fails, which is never a reward of 0. Throws RangeError for unknown
 *          options.
 * Source   OpenRLHF 0.11.2, `openrlhf/utils/agent.py`.
 *
 * @example
 * typeof rewardApp({ env: envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks })), key: keyFromSeed(1) }).fetch // 'function'
 */
export const rewardApp = (options: RewardServerOptions): RewardApp => {
  checkOptions('rewardApp', options, REWARD_APP_OPTIONS)
  const thread = rowThread(options.maxRows ?? MAX_ROWS)
  return {
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/health') return jsonResponse({ status: 'healthy' })
      const refused = await accessProblem(request, options.access ?? {})
      if (refused !== null) return failureResponse(refused)
      if (pathname !== '/get_reward') return failureResponse(apiFailure(404, `There is no route ${pathname}.`))
      if (request.method !== 'POST') return failureResponse(apiFailure(405, 'Send a POST request.'))
      try {
        return await getReward(options, request, thread)
      } catch (error) {
        warnThrown('the environment', error)
        return failureResponse(apiFailure(500, `The environment failed: ${namedMessage(error)}`))
      }
    },
  }
}
