/** The agents of an Inspect sample, from the spans of its events. */
import { z } from 'zod'
import { episodeAgents, type TimedAgent } from './agentLanes.js'
import type { EpisodeAgents } from './viewedTurn.js'

const text = z.string().nullish()

/** An event of a sample. Only those of spans and models are read. */
export const eventSchema = z.looseObject({
  event: z.string(),
  id: text,
  parent_id: text,
  span_id: text,
  type: text,
  name: text,
  timestamp: text,
  completed: text,
  output: z
    .looseObject({
      choices: z.array(z.looseObject({ message: z.looseObject({ content: z.unknown() }) })).default([]),
    })
    .nullish(),
})
type Event = z.infer<typeof eventSchema>

/** Spans that are agents of their own. */
const AGENTS = new Set(['agent', 'solver'])

const secondsOf = (time: string | null | undefined): number => {
  const milliseconds = Date.parse(time ?? '')
  return Number.isNaN(milliseconds) ? 0 : milliseconds / 1000
}

const textBy = ({ output }: Event): string => {
  const content = output?.choices[0]?.message.content
  return typeof content === 'string' ? content : content === undefined ? '' : JSON.stringify(content)
}

/**
 * Returns a lane for each span of an agent or solver in which a model was called. Calls of a model
 * outside of them are left out. The first lane is the rollout.
 */
export const inspectAgents = (events: readonly Event[], rollout: string): EpisodeAgents | null => {
  const spans = new Map(events.flatMap((each) => (each.event === 'span_begin' && each.id ? [[each.id, each]] : [])))
  /** The agent of a span: itself, or the nearest one around it. */
  const agentOf = (span: string | null | undefined): string | null => {
    for (let [at, steps] = [span, 0]; at && steps <= spans.size; steps++) {
      const found = spans.get(at)
      if (found === undefined) return null
      if (AGENTS.has(found.type ?? '')) return at
      at = found.parent_id
    }
    return null
  }
  const calls = events.flatMap((each) => {
    const agent = each.event === 'model' ? agentOf(each.span_id) : null
    return agent === null ? [] : [{ agent, each }]
  })
  const called = new Set(calls.map(({ agent }) => agent))
  const ids = [...spans.keys()].filter((id) => called.has(id))
  /** The next agent around an agent that called a model. */
  const around = (id: string): number | null => {
    for (let at = agentOf(spans.get(id)?.parent_id), steps = 0; at !== null && steps <= spans.size; steps++) {
      if (called.has(at)) return ids.indexOf(at)
      at = agentOf(spans.get(at)?.parent_id)
    }
    return null
  }
  return episodeAgents(
    ids.map((id, i): TimedAgent => {
      const parent = around(id)
      return {
        name: spans.get(id)?.name ?? id,
        rollout: i === 0 ? rollout : null,
        parent,
        link: null,
        turns: calls
          .filter(({ agent }) => agent === id)
          .map(({ each }) => ({
            start: secondsOf(each.timestamp),
            end: secondsOf(each.completed ?? each.timestamp),
            text: textBy(each),
          })),
      }
    }),
  )
}
