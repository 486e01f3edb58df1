/** Reader of captured sessions: JSON lines of `tandem capture` and `capture()`. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { readCapture } from '../../data/capture/records.js'
import type { CapturedCall, CapturedSession } from '../../data/capture/session.js'
import { fileBytes } from '../../live/byteSource.js'
import { type ForeignReader, NO_TOKENS } from './foreignLog.js'
import type { ViewedTurn } from './viewedTurn.js'

const textOfMessage = (message: object): string => {
  const { role, content } = message as { readonly role?: unknown; readonly content?: unknown } // of a request
  return `${String(role)}: ${typeof content === 'string' ? content : JSON.stringify(content ?? '')}`
}

/** Returns the messages of a request as text. */
const queryOf = ({ messages, prompt }: CapturedCall): string =>
  messages === null ? `${prompt.length} tokens` : messages.map(textOfMessage).join('\n\n')

/** Converts a session. Each request is a turn, with the text of its first completion. */
const turnsOf = ({ id, group, calls, reward, end }: CapturedSession): readonly ViewedTurn[] =>
  calls.map((call, turn): ViewedTurn => {
    const [completion] = call.completions
    const isLast = turn === calls.length - 1
    const toolCalls = completion?.answer.calls ?? []
    return {
      ...{ ...NO_TOKENS, step: 1, trajectoryId: id, turn, groupId: group, query: queryOf(call), answer: null },
      ...{ tokens: [completion?.answer.text ?? ''], length: completion?.ids.length ?? 0 },
      ...(toolCalls.length > 0 && { toolCalls, toolUse: { calls: toolCalls.length, errors: 0 } }),
      ...{ reward: isLast ? (reward?.total ?? 0) : 0, parts: isLast ? (reward?.parts ?? {}) : {} },
      ...{ advantage: null, failed: end?.status === 'failed', stopReason: completion?.finishReason ?? null },
      policyVersion: completion?.versions[0] ?? null,
    }
  })

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
          ...{ model: null, data: null, settings: {}, turns: sessions.flatMap(turnsOf) },
          startedAt: first === undefined ? null : new Date(first.createdAt).toISOString(),
        }
      }),
    ),
}
