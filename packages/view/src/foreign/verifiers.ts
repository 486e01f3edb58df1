/** Reader of the traces of verifiers and prime-rl: `traces.jsonl`, one episode a line. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { episodeAgents, type TimedAgent } from './agentLanes.js'
import { type ForeignReader, readLines } from './foreignLog.js'
import { type ForeignMessage, turnsOfMessages } from './messages.js'
import type { EpisodeAgents, ViewedTurn } from './viewedTurn.js'
import { rolloutId } from './viewedTurn.js'

const numbers = z.array(z.number()).nullish()

const content = z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))])

const nodeSchema = z.looseObject({
  parent: z.number().int().nonnegative().nullish(),
  semantic_parents: z.array(z.looseObject({ node: z.number().int(), type: z.string() })).default([]),
  timestamp: z.number().nullish(),
  sampled: z.boolean().default(false),
  message: z.looseObject({
    role: z.string(),
    content: content.nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(z.looseObject({ name: z.string(), arguments: z.string() })).nullish(),
  }),
  mask: z.array(z.boolean()).default([]),
  advantages: numbers,
})

const traceSchema = z.looseObject({
  id: z.string(),
  agent: z.looseObject({ name: z.string().nullish() }).nullish(),
  nodes: z.array(nodeSchema),
  calls: z
    .array(
      z.looseObject({ node: z.number().nullish(), model: z.string().nullish(), finish_reason: z.string().nullish() }),
    )
    .default([]),
  rewards: z.record(z.string(), z.object({ score: z.number(), weight: z.number().default(1) })).default({}),
  errors: z.array(z.unknown()).default([]),
  task: z
    .looseObject({ key: z.string().nullish(), data: z.looseObject({ answer: z.unknown().optional() }).nullish() })
    .nullish(),
})

const policy = z.looseObject({ start: z.number() }).nullish()

const episodeSchema = z.looseObject({
  id: z.string(),
  env: z.looseObject({ id: z.string().default('') }).nullish(),
  group: z.looseObject({ id: z.string() }).nullish(),
  run: z
    .looseObject({ name: z.string().nullish(), work: z.looseObject({ step: z.number(), policy }).nullish() })
    .nullish(),
  traces: z.array(traceSchema),
})

type Node = z.infer<typeof nodeSchema>
type Trace = z.infer<typeof traceSchema>
type Episode = z.infer<typeof episodeSchema>

const contentText = (given: z.infer<typeof content> | null | undefined): string => {
  if (typeof given === 'string') return given
  return (given ?? []).map(({ type, text }) => text ?? `[${type}]`).join('\n')
}

const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length

/** Converts a node. The log has no texts of tokens, so the advantage is their mean. */
const messageOf = ({ message, mask, advantages }: Node, stopReason: string | null): ForeignMessage => {
  const { role, tool_calls: calls, reasoning_content: reasoning } = message
  const reply = contentText(message.content)
  const sampled = mask.filter(Boolean).length
  return {
    role,
    text: reasoning ? `<think>\n${reasoning}\n</think>\n${reply}` : reply,
    ...(calls && { toolCalls: calls.map(({ name, arguments: given }) => ({ name, arguments: given })) }),
    turn: {
      ...(sampled > 0 && { length: sampled }),
      ...(advantages && advantages.length > 0 && { advantage: mean(advantages) }),
      stopReason,
    },
  }
}

/** Returns the paths of a trace from its root to each last message, as indices of nodes. */
const branchesOf = ({ nodes }: Trace): readonly (readonly number[])[] => {
  const inner = new Set(nodes.map(({ parent }) => parent))
  return nodes.flatMap((_, leaf) => {
    if (inner.has(leaf)) return []
    const path: number[] = []
    // A parent comes before its children, so that a damaged log cannot make this loop endless.
    for (let at: number | null | undefined = leaf; at !== null && at !== undefined; ) {
      path.unshift(at)
      const parent: number | null | undefined = nodes[at]!.parent
      at = parent !== null && parent !== undefined && parent < at ? parent : null
    }
    return [path]
  })
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** Identity of the rollout of a branch. */
const placeOf = (trace: Trace, episode: Episode, branch: number) => ({
  step: episode.run?.work?.step ?? 0,
  trajectoryId: branchesOf(trace).length === 1 ? trace.id : `${trace.id}.${branch}`,
})

/** Finds the branch that started another, and their relation, from the nodes of its own. */
const parentOf = ({ nodes }: Trace, paths: readonly (readonly number[])[], branch: number, own: readonly number[]) => {
  const branchWith = (node: number) => paths.findIndex((path, i) => i !== branch && path.includes(node))
  for (const at of own)
    for (const { node, type } of nodes[at]!.semantic_parents)
      if (!own.includes(node) && branchWith(node) !== -1 && type !== 'subagent_return')
        return { parent: branchWith(node), link: type }
  const shared = paths[branch]!.findLast((at) => nodes[at]!.sampled && !own.includes(at))
  return shared === undefined ? { parent: null, link: null } : { parent: branchWith(shared), link: 'branch' }
}

/** Returns a lane for each branch of each trace. Messages that branches share are in the first. */
const lanesOf = (episode: Episode): EpisodeAgents | null => {
  const lanes: TimedAgent[] = []
  for (const trace of episode.traces) {
    const [paths, first, done] = [branchesOf(trace), lanes.length, new Set<number>()]
    for (const [i, path] of paths.entries()) {
      const own = path.filter((at) => !done.has(at))
      for (const at of own) done.add(at)
      const { parent, link } = parentOf(trace, paths, i, own)
      const timeOf = (at: number | undefined) => (at === undefined ? undefined : (trace.nodes[at]?.timestamp ?? 0))
      lanes.push({
        name: `${trace.agent?.name ?? 'agent'}${paths.length === 1 ? '' : ` ${i + 1}`}`,
        rollout: rolloutId(placeOf(trace, episode, i)),
        parent: parent === null ? null : first + parent,
        link,
        turns: own
          .filter((at) => trace.nodes[at]!.sampled)
          .map((at) => ({
            start: timeOf(path[path.indexOf(at) - 1]) ?? timeOf(at)!,
            end: timeOf(at)!,
            text: messageOf(trace.nodes[at]!, null).text,
          })),
      })
    }
  }
  return episodeAgents(lanes)
}

const turnsOfTrace = (trace: Trace, episode: Episode, agents: EpisodeAgents | null): readonly ViewedTurn[] => {
  const stops = new Map(trace.calls.map(({ node, finish_reason }) => [node, finish_reason ?? null]))
  const parts = Object.fromEntries(
    Object.entries(trace.rewards).map(([name, { score, weight }]) => [name, score * weight]),
  )
  return branchesOf(trace).flatMap((path, i) =>
    turnsOfMessages(
      path.map((at) => messageOf(trace.nodes[at]!, stops.get(at) ?? null)),
      {
        ...placeOf(trace, episode, i),
        groupId: episode.group?.id ?? trace.task?.key ?? null,
        answer: textOrNull(trace.task?.data?.answer),
        reward: Object.values(parts).reduce((sum, part) => sum + part, 0),
        parts,
        policyVersion: episode.run?.work?.policy?.start ?? null,
        failed: trace.errors.length > 0,
        ...(agents !== null && { agents }),
      },
    ),
  )
}

const turnsOfEpisode = (episode: Episode): readonly ViewedTurn[] => {
  const agents = lanesOf(episode)
  return episode.traces.flatMap((trace) => turnsOfTrace(trace, episode, agents))
}

const FORMAT = 'verifiers traces'

export const verifiersReader: ForeignReader = {
  format: FORMAT,
  hasName: (name) => name === 'traces.jsonl',
  unit: 'file',
  read: (files, paths) =>
    pipe(
      readLines(files, paths, { format: FORMAT, schema: episodeSchema }),
      TE.map((episodes) => ({
        model:
          episodes.flatMap(({ traces }) =>
            traces.flatMap(({ calls }) => calls.flatMap(({ model }) => model ?? [])),
          )[0] ?? null,
        data: episodes.find(({ env }) => env?.id)?.env?.id ?? null,
        startedAt: null,
        settings: { run: episodes.find(({ run }) => run?.name)?.run?.name ?? null },
        turns: episodes.flatMap(turnsOfEpisode),
      })),
    ),
}
