/** Reader of captured sessions: JSON lines of `tandem capture` and `capture()`. */
import { fileBytes } from '@tandem-rl/host'
import { type CapturedCall, type CapturedSession, linkCalls, readCapture } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { episodeAgents } from './agentLanes.js'
import { type ForeignReader, NO_TOKENS } from './foreignLog.js'
import type { EpisodeAgents, ViewedTurn } from './viewedTurn.js'

const textOfMessage = (message: object): string => {
  const { role, content } = message as { readonly role?: unknown; readonly content?: unknown } // of a request
  return `${String(role)}: ${typeof content === 'string' ? content : JSON.stringify(content ?? '')}`
}

/** Returns the messages of a request as text. */
const queryOf = ({ messages, prompt }: CapturedCall): string =>
  messages === null ? `${prompt.length} tokens` : messages.map(textOfMessage).join('\n\n')

/** One conversation of a session, and the last call that it has so far. */
interface Chain {
  readonly calls: CapturedCall[]
  readonly parent: number | null
  readonly link: string | null
}

/**
 * Splits the calls of a session into the conversations of its agents, by their tokens. A
 * conversation that starts anew belongs to the one whose call ended last before.
 */
const chainsOf = (calls: readonly CapturedCall[]): readonly Chain[] => {
  const { parents } = linkCalls(calls)
  const chains: Chain[] = []
  const has = (index: number) => (chain: Chain) => chain.calls.some((call) => call.index === index)
  for (const call of calls.toSorted((a, b) => a.index - b.index)) {
    const before = parents.get(call.index)?.call.index
    const own = before === undefined ? -1 : chains.findIndex(has(before))
    if (own !== -1 && chains[own]!.calls.at(-1)!.index === before) {
      chains[own]!.calls.push(call)
      continue
    }
    const ended = chains.flatMap((chain) => chain.calls).filter((each) => endOf(each) <= call.startedAt)
    const last = ended.toSorted((a, b) => endOf(b) - endOf(a))[0]
    const parent = own !== -1 ? own : last === undefined ? null : chains.findIndex(has(last.index))
    chains.push({ calls: [call], parent, link: own !== -1 ? 'branch' : parent === null ? null : 'started after' })
  }
  return chains
}

const endOf = ({ startedAt, durationMs }: CapturedCall): number => startedAt + durationMs

const agentsOf = ({ calls }: CapturedSession): EpisodeAgents | null =>
  episodeAgents(
    chainsOf(calls).map(({ calls: own, parent, link }, i) => ({
      name: `conversation ${i + 1}`,
      rollout: null,
      parent,
      link,
      turns: own.map((call) => ({
        start: call.startedAt / 1000,
        end: endOf(call) / 1000,
        text: call.completions[0]?.answer.text ?? '',
      })),
    })),
  )

/** Converts a session. Each request is a turn, with the text of its first completion. */
const turnsOf = (session: CapturedSession): readonly ViewedTurn[] => {
  const { id, group, calls, reward, end } = session
  const agents = agentsOf(session)
  return calls.map((call, turn): ViewedTurn => {
    const [completion] = call.completions
    const isLast = turn === calls.length - 1
    const toolCalls = completion?.answer.calls ?? []
    return {
      ...NO_TOKENS,
      step: 1,
      trajectoryId: id,
      turn,
      groupId: group,
      query: queryOf(call),
      answer: null,
      ...(turn === 0 && agents !== null && { agents }),
      tokens: [completion?.answer.text ?? ''],
      length: completion?.ids.length ?? 0,
      ...(toolCalls.length > 0 && { toolCalls, toolUse: { calls: toolCalls.length, errors: 0 } }),
      reward: isLast ? (reward?.total ?? 0) : 0,
      parts: isLast ? (reward?.parts ?? {}) : {},
      advantage: null,
      failed: end?.status === 'failed',
      stopReason: completion?.finishReason ?? null,
      policyVersion: completion?.versions[0] ?? null,
    }
  })
}

export const capturedReader: ForeignReader = {
  format: 'captured sessions',
  hasName: (name) => name.endsWith('.jsonl'),
  startsWith: '{"type":"session"',
  unit: 'file',
  read: (files, [path = '']) =>
    pipe(
      fileBytes(path, files),
      TE.chainW((source) => () => readCapture(source)),
      TE.map(({ sessions }) => {
        const [first] = sessions
        return {
          model: null,
          data: null,
          settings: {},
          turns: sessions.flatMap(turnsOf),
          startedAt: first === undefined ? null : new Date(first.createdAt).toISOString(),
        }
      }),
    ),
}
