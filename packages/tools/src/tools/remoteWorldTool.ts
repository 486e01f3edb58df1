/** Text worlds behind an HTTP service, as tools. */
import { checkOptions, resourceFailure, type Transport } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { REMOTE_WORLD_TOOL_OPTIONS } from '../optionKinds.js'
import { type ServiceSession, serviceResource } from '../processes/serviceResource.js'
import { toolEnvironment } from '../resources/toolEnvironment.js'
import { REMOTE_VIEW } from '../worlds/worldService.js'
import { type Tool, tool, toolFailure } from './tool.js'
import { taskGoal, type WorldToolOptions } from './worldTool.js'

export interface RemoteWorldToolOptions extends WorldToolOptions {
  readonly name: string
  /** A description of the world's commands, for the policy. */
  readonly description: string
  /** The connection to the service: `liveTransport({ url })`. Its owner closes it. */
  readonly transport: Transport
  /** Maximum number of concurrent sessions. Default 8. */
  readonly poolSize?: number
}

const requested = async (session: ServiceSession, path: string, json: unknown, signal?: AbortSignal) => {
  const answer = await session.post(path, json, signal)()
  if (E.isLeft(answer)) return answer
  const view = REMOTE_VIEW.safeParse(answer.right)
  return view.success
    ? E.right(view.data)
    : E.left(resourceFailure('world', 'dead', `invalid response: ${z.prettifyError(view.error)}`))
}

/**
 * Makes a tool that plays a text world behind an HTTP service, such as a Python program around
 * ScienceWorld, ALFWorld or WebShop. `worldService` shows the protocol. Each conversation has its
 * own session, which is started with the arguments of its row and ended after its reward.
 *
 * Errors   `call` returns `Left(ToolFailure)` of kind `infrastructure` if the service has no free
 *          session, dies, or sends an invalid response.
 * Effects  sessions of the service, until `close`.
 *
 * @example
 * remoteWorldTool({ name: 'shop', description: 'A shop.', transport: liveTransport({ url: 'http://127.0.0.1:8000' }) }).name // 'shop'
 */
export const remoteWorldTool = (options: RemoteWorldToolOptions): Tool => {
  checkOptions('remoteWorldTool', options, REMOTE_WORLD_TOOL_OPTIONS)
  const { name, description, transport, poolSize = 8, arguments: argumentsOf = taskGoal } = options
  const environment = toolEnvironment(serviceResource(name, transport), {
    poolSize,
    prepare: async (session, episode) => {
      const started = await requested(
        session,
        'start',
        episode?.task === undefined ? null : argumentsOf(episode.task as Task),
      )
      if (E.isLeft(started)) throw new Error(started.left.reason)
    },
  })
  return tool({
    name,
    description,
    parameters: { action: z.string().max(2000) },
    initial: null as { readonly score: number } | null, // before the first action the score is unknown
    environment,
    run:
      ({ action }, { environment: session, signal }) =>
      async () => {
        const view = await requested(session, 'act', { action }, signal)
        if (E.isLeft(view)) return E.left(toolFailure(name, 'infrastructure', view.left.reason))
        const { observation, score, done } = view.right
        return E.right({ content: observation, status: done ? 'finish' : 'success', state: { score } })
      },
  })
}
