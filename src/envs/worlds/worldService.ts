/** Text worlds over HTTP: the protocol that worlds in other processes and languages speak. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { parseJson } from '../../core/json.js'
import type { TextWorld, WorldView } from './textWorld.js'

/** The part of a view that crosses the wire. */
export const REMOTE_VIEW: z.ZodType<Omit<WorldView, 'state'>> = z.object({
  observation: z.string(),
  actions: z.array(z.string()),
  score: z.number(),
  done: z.boolean(),
})

const actSchema = z.object({ action: z.string() })

const reply = (status: number, body: unknown): Response => Response.json(body, { status })

/** Most sessions of a service. One more is refused. */
const MAX_SESSIONS = 10_000

/**
 * Makes a service of a text world, from requests to responses. Mount it on any server that takes such
 * a function. `worldTool` and this service play the same world; use the service for tests of clients,
 * or as the model of a service in another language.
 *
 * | Request | Body | Answer |
 * | --- | --- | --- |
 * | `POST /sessions` | none | `{ id }` |
 * | `POST /sessions/ID/start` | the arguments of the row | `{ observation, actions, score, done }` |
 * | `POST /sessions/ID/act` | `{ action }` | the same |
 * | `DELETE /sessions/ID` | none | `{}` |
 *
 * Effects  remembers a state for each open session.
 *
 * @example
 * worldService(shopWorld()).sessions() // 0
 */
export const worldService = <S>(
  world: TextWorld<S>,
): { readonly handle: (request: Request) => Promise<Response>; readonly sessions: () => number } => {
  const states = new Map<string, S | undefined>()
  let opened = 0
  const shown = (id: string, { state, ...view }: WorldView<S>): Response => {
    states.set(id, state)
    return reply(200, view)
  }
  const posted = (id: string, path: string, body: unknown): Response => {
    if (path === 'start') {
      const view = world.start(body)
      return E.isLeft(view) ? reply(400, { error: view.left }) : shown(id, view.right)
    }
    const act = actSchema.safeParse(body)
    const state = states.get(id)
    if (path !== 'act' || !act.success) return reply(400, { error: 'expected start, or act with { action }' })
    return state === undefined
      ? reply(409, { error: 'the session is not started' })
      : shown(id, world.act(state, act.data.action))
  }
  return {
    sessions: () => states.size,
    handle: async (request) => {
      const [, first, id, path] = new URL(request.url).pathname.split('/')
      if (first !== 'sessions') return reply(404, { error: 'no such page' })
      if (id === undefined) {
        if (states.size >= MAX_SESSIONS) return reply(503, { error: `${MAX_SESSIONS} sessions are open` })
        const fresh = `s${opened++}`
        states.set(fresh, undefined)
        return reply(200, { id: fresh })
      }
      if (!states.has(id)) return reply(404, { error: 'no such session' })
      if (request.method === 'DELETE') {
        states.delete(id)
        return reply(200, {})
      }
      const body = parseJson(await request.text())
      return E.isLeft(body) ? reply(400, { error: 'the body is not JSON' }) : posted(id, path ?? '', body.right)
    },
  }
}
