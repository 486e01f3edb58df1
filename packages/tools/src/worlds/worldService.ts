/** Text worlds over HTTP: the protocol that worlds in other processes and languages speak. */
import { parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { TextWorld, WorldView } from './textWorld.js'

/** The part of a view that crosses the wire. */
export const REMOTE_VIEW: z.ZodType<Omit<WorldView, 'state'>> = z.object({
  observation: z.string(),
  actions: z.array(z.string()),
  score: z.number(),
  done: z.boolean(),
})

const openSchema = z.object({
  id: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .optional(),
})

const actSchema = z.object({ action: z.string() })

const reply = (status: number, body: unknown): Response => Response.json(body, { status })

/** Most sessions of a service. One more is refused. */
const MAX_SESSIONS = 10_000

/**
 * Makes a service of a text world, from requests to responses. Mount it on any server that takes
 * such a function. `worldTool` and this service play the same world; use the service for tests of
 * clients, or as the model of a service in another language.
 *
 * | Request | Body | Answer |
 * | --- | --- | --- |
 * | `POST /sessions` | none, or `{ id }`: 1 to 64 letters, digits, `_` and `-` | `{ id }` |
 * | `POST /sessions/ID/start` | the arguments of the row | `{ observation, actions, score, done }` |
 * | `POST /sessions/ID/act` | `{ action }` | the same |
 * | `DELETE /sessions/ID` | none | `{}` |
 *
 * A client that chooses the id can end a session even if the answer to its `POST` was lost. After a
 * `DELETE`, a request of the session that still runs is answered with 404 and leaves nothing.
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
  const open = (text: string): Response => {
    if (states.size >= MAX_SESSIONS) return reply(503, { error: `${MAX_SESSIONS} sessions are open` })
    const body = openSchema.safeParse(E.getOrElse((): unknown => null)(parseJson(text === '' ? '{}' : text)))
    if (!body.success) return reply(400, { error: 'expected no body, or { id } with a short id' })
    while (states.has(`s${opened}`)) opened++
    const id = body.data.id ?? `s${opened++}`
    if (states.has(id)) return reply(409, { error: 'a session with this id is open' })
    states.set(id, undefined)
    return reply(200, { id })
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
      if (id === undefined) return open(await request.text())
      if (!states.has(id)) return reply(404, { error: 'no such session' })
      if (request.method === 'DELETE') {
        states.delete(id)
        return reply(200, {})
      }
      const body = parseJson(await request.text())
      if (!states.has(id)) return reply(404, { error: 'the session was ended meanwhile' })
      return E.isLeft(body) ? reply(400, { error: 'the body is not JSON' }) : posted(id, path ?? '', body.right)
    },
  }
}
