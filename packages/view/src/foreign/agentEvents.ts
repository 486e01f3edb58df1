/** Reader of the events of agents: `tandem agent run RECIPE --json`. */
import { ownValue } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { agentTask } from 'tandem-rl/datasets'
import { z } from 'zod'
import { type ForeignReader, readLines } from './foreignLog.js'
import { type ForeignMessage, turnsOfMessages } from './messages.js'
import type { ViewedTurn } from './viewedTurn.js'

const part = z.looseObject({ type: z.string(), text: z.string().optional() })

const place = { chainId: z.string(), groupId: z.string() }

const call = z.looseObject({ name: z.string(), arguments: z.unknown(), written: z.string().optional() })

/** The events that are shown. Others, such as pieces of replies and metrics, are skipped. */
const shownSchema = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('chain_start'), ...place, row: z.record(z.string(), z.unknown()) }),
  z.looseObject({ type: z.literal('generation_end'), ...place, text: z.string() }),
  z.looseObject({ type: z.literal('tool_call_start'), ...place, call }),
  z.looseObject({ type: z.literal('tool_call_end'), ...place, call, outcome: z.string() }),
  z.looseObject({
    type: z.literal('observation'),
    ...place,
    messages: z.array(z.looseObject({ role: z.string(), content: z.array(part) })),
  }),
  z.looseObject({
    type: z.literal('reward'),
    ...place,
    reward: z.number(),
    extras: z.record(z.string(), z.number()),
  }),
  z.looseObject({ type: z.literal('error'), ...place, failure: z.looseObject({ reason: z.string() }) }),
  z.looseObject({ type: z.literal('chain_end'), ...place, finishReason: z.string() }),
])

type Shown = z.infer<typeof shownSchema>

const SHOWN = new Set<string>(shownSchema.options.map(({ shape }) => shape.type.value))

const otherSchema = z.looseObject({ type: z.string().refine((type) => !SHOWN.has(type)) })

const eventSchema = z.union([shownSchema, otherSchema])

const isShown = (event: z.infer<typeof eventSchema>): event is Shown => SHOWN.has(event.type)

/** The messages before the first reply, and the reference answer. */
const startOf = (row: Readonly<Record<string, unknown>>) => {
  const task = agentTask(row, 'row')
  if (E.isLeft(task)) return { messages: [], answer: null }
  const { messages = [], answer } = task.right
  return {
    messages: messages.map((each): ForeignMessage => ({ role: each.role, text: textOf(each) })),
    answer: answer === '' ? null : answer,
  }
}

const STOPS: Readonly<Record<string, string>> = { max_turns: 'length', max_model_len: 'length' }

/** Converts the events of one chain, in their order. */
const turnsOf = (events: readonly Shown[]): readonly ViewedTurn[] => {
  const { chainId, groupId } = events[0]! // a chain has an event
  const messages: ForeignMessage[] = []
  let answer: string | null = null
  let scored = { reward: 0, extras: {} as Readonly<Record<string, number>> }
  let failed = false
  const inLast = (change: (last: ForeignMessage) => ForeignMessage): void => {
    const at = messages.findLastIndex(({ role }) => role === 'assistant')
    if (at >= 0) messages[at] = change(messages[at]!)
  }
  for (const event of events) {
    switch (event.type) {
      case 'chain_start': {
        const start = startOf(event.row)
        messages.push(...start.messages)
        answer = start.answer
        break
      }
      case 'generation_end':
        messages.push({ role: 'assistant', text: event.text })
        break
      case 'tool_call_start': {
        const made = {
          name: event.call.name,
          arguments: event.call.written ?? JSON.stringify(event.call.arguments ?? {}),
        }
        inLast((last) => ({ ...last, toolCalls: [...(last.toolCalls ?? []), made] }))
        break
      }
      case 'tool_call_end': {
        const isError = event.outcome !== 'ok' && event.outcome !== 'finish'
        inLast((last) => {
          const { calls, errors } = last.turn?.toolUse ?? { calls: 0, errors: 0 }
          const toolUse = { calls: calls + 1, errors: errors + (isError ? 1 : 0) }
          return { ...last, turn: { ...last.turn, toolUse } }
        })
        break
      }
      case 'observation':
        for (const { role, content } of event.messages)
          messages.push({ role, text: content.map(({ type, text }) => text ?? `[${type}]`).join('') })
        break
      case 'reward':
        scored = event
        break
      case 'error':
        failed = true
        messages.push({ role: 'system', text: event.failure.reason, isError: true })
        break
      case 'chain_end': {
        const stopReason = ownValue(STOPS, event.finishReason) ?? null
        failed ||= event.finishReason === 'failed'
        inLast((last) => ({ ...last, turn: { ...last.turn, stopReason } }))
      }
    }
  }
  const { reward, extras: parts } = scored
  const step = { step: 1, trajectoryId: chainId, groupId, policyVersion: null }
  return turnsOfMessages(messages, { ...step, answer, reward, parts, failed })
}

const byChain = (events: readonly Shown[]): readonly (readonly Shown[])[] => {
  const chains = new Map<string, Shown[]>()
  for (const event of events) {
    const own = chains.get(event.chainId)
    if (own === undefined) chains.set(event.chainId, [event])
    else own.push(event)
  }
  return [...chains.values()]
}

const FORMAT = 'agent events'

export const agentEventsReader: ForeignReader = {
  format: FORMAT,
  hasName: (name) => name.endsWith('.jsonl'),
  startsWith: '{"type":"chain_start"',
  unit: 'file',
  read: (files, paths) =>
    pipe(
      readLines(files, paths, { format: FORMAT, schema: eventSchema }),
      TE.map((events) => ({
        model: null,
        data: null,
        startedAt: null,
        settings: {},
        turns: byChain(events.filter(isShown)).flatMap(turnsOf),
      })),
    ),
}
