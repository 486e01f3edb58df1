/** Logs of other programs, made with their packages by `test/golden/generate/foreignLogs.py`. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type ChainEvent, HFAgent } from '@tandem-rl/agents'
import { orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { recordLine } from '@tandem-rl/text'
import { calculator } from '@tandem-rl/tools'
import { describe, expect, it } from 'vitest'
import { callOf } from '../../../../test/kit/capturedCalls.js'
import { scriptedBackend } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { conversationOf } from '../../src/conversation.js'
import type { EpisodeAgents } from '../../src/foreign/viewedTurn.js'
import type { TurnRow } from '../../src/protocol.js'
import { runAnswer, viewedRuns } from '../../src/viewedRuns.js'

useEngine()

const GOLDEN = fileURLToPath(new URL('../golden/foreign', import.meta.url))
const TEAM = fileURLToPath(new URL('../golden/foreignTeam', import.meta.url))
const path = useTemporaryFolder()

/** Opens the only run of a place. */
const open = async (place: string) => {
  const [run, ...more] = await viewedRuns(liveFiles, [place])()
  if (run === undefined || more.length > 0) throw new Error(`expected one run in ${place}`)
  const rollouts = await run.rollouts()
  const turns = await run.turns(rollouts)
  return {
    run,
    answer: await runAnswer(run),
    columns: (await run.log()).columns,
    rows: rollouts.map(({ row }) => row),
    conversations: turns.map((own) => conversationOf(own)),
    agents: turns.map(([first]) => first?.agents ?? null),
  }
}

/** The name, parent, turns and rollout of each lane. */
const lanesOf = (agents: EpisodeAgents | null | undefined) =>
  (agents?.lanes ?? []).map(({ name, parent, turns, rollout }) => [name, parent, turns.length, rollout])

const outline = (turns: readonly TurnRow[]) =>
  turns.map(({ author, text, toolCalls, isError }) => [
    ...[author, text, toolCalls.map((call) => `${call.name}(${call.arguments})`).join()],
    ...(isError === true ? ['error'] : []),
  ])

describe('logs of other programs', () => {
  it('TRL completions: steps, groups by prompt, rewards by function and advantages', async () => {
    const { answer, rows, columns, conversations } = await open(`${GOLDEN}/trl`)
    expect(answer).toMatchObject({ tags: ['TRL completions'], step: 2, rollouts: 8, features: ['rescore'] })
    expect(rows.map(({ step }) => step)).toEqual([1, 1, 1, 1, 2, 2, 2, 2])
    expect(rows[0]!.group).toBe(rows[1]!.group)
    expect(Object.keys(rows[0]!.parts)).toEqual(['length', 'digits'])
    for (const { reward, parts, failed, advantage } of rows) {
      expect(reward).toBeCloseTo(parts.length! + parts.digits!, 9)
      expect([failed, Math.sign(advantage!)]).toEqual([false, Math.sign(advantage!)])
    }
    expect(columns?.columns.reward?.[0]).toBeCloseTo(
      rows.slice(0, 4).reduce((sum, { reward }) => sum + reward / 4, 0),
      9,
    )
    expect(conversations[0]![0]!.text).toContain('Größe <b>?')
  })

  it('verifiers and prime-rl traces: messages with tools, weighted rewards, steps and groups', async () => {
    const { answer, rows, conversations } = await open(`${GOLDEN}/verifiers`)
    expect(answer).toMatchObject({ tags: ['verifiers traces'], data: 'sums', settings: { run: 'sums run' } })
    expect(rows[0]).toMatchObject({
      ...{ step: 5, group: 'g1', reward: 2.5, parts: { correct: 2, format: 0.5 }, turns: 2, length: 3, version: 4 },
      ...{ toolCalls: 1, toolErrors: 0, failed: false },
    })
    expect(rows[1]!.reward).toBe(0.5)
    expect(outline(conversations[1]!)).toEqual([
      ['system', 'Be brief.', ''],
      ['user', '2 + 2?', ''],
      ['model', '', 'add({"x": 2, "y": 2})'],
      ['tool', '4', ''],
      ['model', '<think>\nSure.\n</think>\n5 <b>', ''],
    ])
  })

  it('Inspect logs, which are archives with Zstandard: samples, scores and tool calls', async () => {
    const { answer, rows, conversations } = await open(`${GOLDEN}/inspect/sums.eval`)
    expect(answer).toMatchObject({ tags: ['Inspect log'], model: 'mockllm/model', data: 'sums', state: 'finished' })
    expect(rows.map(({ group, reward, parts }) => [group, reward, parts])).toEqual([
      ['a', 1, { includes: 1 }],
      ['b', 0, { includes: 0 }],
    ])
    expect(outline(conversations[0]!)).toEqual([
      ['system', 'Be brief.', ''],
      ['user', '2 + 2?', ''],
      ['model', 'tool call for tool add', 'add({"x":2,"y":2})'],
      ['tool', '4', ''],
      ['model', 'The answer is 4.', ''],
    ])
    expect(conversations[1]!.at(-1)!.text).toBe('I do not know \u202e<b>.')
  })

  it('Inspect logs of agents at the same time: a lane for each, below the one that started it', async () => {
    const { agents } = await open(`${TEAM}/team.eval`)
    expect(agents[0]?.unit).toBe('seconds')
    expect(lanesOf(agents[0])).toEqual([
      ['coordinator', null, 2, '1-a_1'],
      ['searcher', 0, 1, null],
      ['reader', 0, 1, null],
      ['checker', 1, 1, null],
    ])
    const [, searcher, reader] = agents[0]!.lanes
    expect(reader!.turns[0]!.start).toBeLessThan(searcher!.turns[0]!.end)
    expect(searcher!.turns[0]!.text).toBe('Done: Search <b>here</b>.')
  })

  it('traces of sub-agents: a lane for each branch and each trace, with the calls between them', async () => {
    const { agents, rows } = await open(`${TEAM}/traces.jsonl`)
    expect(rows.map(({ id }) => id)).toEqual(['6-team-solver.0', '6-team-solver.1', '6-team-solver.2', '6-team-judge'])
    expect(lanesOf(agents[0])).toEqual([
      ['solver 1', 2, 1, '6-team-solver.0'],
      ['solver 2', 2, 1, '6-team-solver.1'],
      ['solver 3', null, 2, '6-team-solver.2'],
      ['judge', null, 1, '6-team-judge'],
    ])
    expect(agents[0]!.lanes[0]).toMatchObject({
      link: 'subagent_call',
      turns: [{ start: 2, end: 5, text: 'Found 4.' }],
    })
    expect(agents[3]).toEqual(agents[0])
  })

  it('verl rollouts: one file for each step, in the order of steps', async () => {
    mkdirSync(path('verl'))
    const line = (score: number) => JSON.stringify({ input: 'q', output: 'a', gts: 4, score, acc: score > 0.5, fmt: 1 })
    for (const [name, score] of [
      ['2', 0],
      ['10', 1],
    ] as const)
      writeFileSync(path(`verl/${name}.jsonl`), `${line(score)}\n${line(0.5)}\n`)
    const { rows, answer } = await open(path('verl'))
    expect(answer.tags).toEqual(['verl rollouts'])
    expect(rows.map(({ step, reward, group, parts }) => [step, reward, group, parts])).toEqual([
      ...[
        [2, 0, '0', { fmt: 1 }],
        [2, 0.5, '0', { fmt: 1 }],
      ],
      ...[
        [10, 1, '0', { fmt: 1 }],
        [10, 0.5, '0', { fmt: 1 }],
      ],
    ])
  })

  it('events of agents: replies, calls, results, rewards and failed chains, also interleaved', async () => {
    const call = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 *"}}</tool_call>'
    const lines: string[] = []
    const agent = HFAgent({
      ...{ modelNameOrPath: 'small', tools: [calculator()], backendConfig: scriptedBackend([call, call, 'It is 42.']) },
      rewardFn: ({ prediction, answer }) => (prediction.includes(answer) ? 1 : 0),
    })
    const observers = [(event: ChainEvent) => lines.push(JSON.stringify(event))]
    await orThrow(agent.run({ messages: [{ question: '6 * 7?', answer: '42' }], numChains: 2, observers }))
    writeFileSync(path('events.jsonl'), `${[...lines, '{"type":"metrics","metrics":{}}'].join('\n')}\n`)
    const { answer, rows, conversations } = await open(path('events.jsonl'))
    expect(answer).toMatchObject({ tags: ['agent events'], rollouts: 2 })
    expect(
      rows.map(({ reward, failed, turns, toolCalls, toolErrors }) => [reward, failed, turns, toolCalls, toolErrors]),
    ).toEqual([
      [1, false, 2, 1, 1],
      [0, true, 1, 1, 1],
    ])
    expect(new Set(rows.map(({ group }) => group)).size).toBe(1)
    expect(outline(conversations[0]!)).toEqual([
      ['user', '6 * 7?', ''],
      ['model', call, 'calculator({"expression":"6 *"})'],
      ['tool', expect.stringMatching(/^error: /), ''],
      ['model', 'It is 42.', ''],
    ])
    expect(conversations[1]!.at(-1)).toMatchObject({ author: 'system', isError: true })
  })

  it('captured sessions and games of the arena', async () => {
    const session = { id: 's1', group: 'g', metadata: {}, createdAt: 0 }
    const reward = { total: 0.5, parts: { right: 0.5 } }
    writeFileSync(
      path('sessions.jsonl'),
      recordLine({ type: 'session', session }) + recordLine({ type: 'reward', session: 's1', reward }),
    )
    expect((await open(path('sessions.jsonl'))).answer.tags).toEqual(['captured sessions'])
    mkdirSync(path('arena'))
    const move = { player: 0, action: 4, text: 'b2', by: 'player', latencyMs: 1 }
    const game = {
      ...{
        id: 'g1',
        game: 'ticTacToe',
        matchup: 'm',
        episode: 0,
        round: 0,
        seats: ['A', 'B'],
        end: 'over',
        history: [],
      },
      returns: [1, -1],
      moves: [
        { ...move, illegal: [{ reply: 'z9', reason: 'no such square' }], reply: 'I play b2', reasoning: 'the center' },
        { ...move, player: 1, text: 'a1', illegal: [] },
      ],
    }
    writeFileSync(path('arena/games.jsonl'), `${JSON.stringify(game)}\n`)
    const { rows, conversations, agents } = await open(path('arena'))
    expect(agents[0]).toEqual({
      unit: 'turns',
      lanes: [
        { name: 'A, seat 0', rollout: '1-g1_0', parent: null, link: null, turns: [{ start: 0, end: 1, text: 'b2' }] },
        { name: 'B, seat 1', rollout: '1-g1_1', parent: null, link: null, turns: [{ start: 1, end: 2, text: 'a1' }] },
      ],
    })
    expect(rows.map(({ group, reward }) => [group, reward])).toEqual([
      ['g1', 1],
      ['g1', -1],
    ])
    expect(outline(conversations[0]!).slice(1)).toEqual([
      ['model', '<think>\nthe center\n</think>\nI play b2', ''],
      ['tool', 'no such square: z9', '', 'error'],
      ['user', 'B: a1', ''],
    ])
  })

  it('captured sessions: a lane for each conversation, below the one whose call ended last before', async () => {
    const calls = [
      callOf(0, [1], [[2]], { startedAt: 1000, durationMs: 5 }),
      callOf(1, [7], [[4]], { startedAt: 1010, durationMs: 20 }),
      callOf(2, [8], [[5]], { startedAt: 1012, durationMs: 10 }),
      callOf(3, [1, 2, 3], [[6]], { startedAt: 1040, durationMs: 10 }),
    ]
    const session = { id: 's', group: 'g', metadata: {}, createdAt: 0 }
    const lines = [recordLine({ type: 'session', session }), ...calls.map((call) => recordLine({ type: 'call', call }))]
    writeFileSync(path('team.jsonl'), lines.join(''))
    const { agents } = await open(path('team.jsonl'))
    expect(lanesOf(agents[0])).toEqual([
      ['conversation 1', null, 2, null],
      ['conversation 2', 0, 1, null],
      ['conversation 3', 0, 1, null],
    ])
    expect(agents[0]!.lanes[2]).toMatchObject({ link: 'started after', turns: [{ text: '5' }] })
    expect(agents[0]!.lanes[2]!.turns[0]!.start).toBeCloseTo(0.012, 6)
  })

  it('are runs without rollouts if they are damaged, with the file and the reason', async () => {
    mkdirSync(path('bad/completions'), { recursive: true })
    copyFileSync(
      `${GOLDEN}/trl/completions/completions_00001.parquet`,
      path('bad/completions/completions_00001.parquet'),
    )
    const cut = readFileSync(`${GOLDEN}/inspect/sums.eval`)
    writeFileSync(path('bad/cut.eval'), cut.subarray(0, cut.length - 9))
    cut[60] = cut[60]! ^ 1
    writeFileSync(path('bad/flipped.eval'), cut)
    writeFileSync(path('bad/traces.jsonl'), '{"id":1}\n{}\n')
    writeFileSync(path('bad/config.json'), '{"architectures":["Qwen2"]}')
    const runs = await viewedRuns(liveFiles, [path('bad')])()
    const notes = await Promise.all(runs.map(async (run) => [run.id, (await run.note()).note]))
    expect(Object.fromEntries(notes)).toEqual({
      bad: undefined,
      'cut.eval': expect.stringMatching(/^This log cannot be read: .*cut\.eval.*end record/),
      'flipped.eval': undefined, // an entry that is not read
      'traces.jsonl': expect.stringMatching(/traces\.jsonl: line 1: /),
    })
  })

  it('are read again when a file is added', async () => {
    mkdirSync(path('grows'))
    const name = (step: number) => `completions_0000${step}.parquet`
    copyFileSync(`${GOLDEN}/trl/completions/${name(1)}`, path(`grows/${name(1)}`))
    const find = viewedRuns(liveFiles, [path('grows')])
    const count = async () => (await (await find())[0]!.rollouts()).length
    expect(await count()).toBe(4)
    copyFileSync(`${GOLDEN}/trl/completions/${name(2)}`, path(`grows/${name(2)}`))
    expect(await count()).toBe(8)
  })
})
