/** Logs of rollouts: rows, turns and search while the log grows, and the index beside it. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { liveFiles } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import type { TrajectoryRecord } from '../../../src/run/metrics/records.js'
import { trajectoryRecord } from '../../../test/kit/records.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { fileRollouts, heldRollouts } from '../src/rolloutLog.js'

const path = useTemporaryFolder()

const linesOf = (records: readonly TrajectoryRecord[]): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('')

const paths = (name: string) => ({
  path: path(`${name}/trajectories.jsonl`),
  index: path(`${name}/.view/rollouts.json`),
})

/** Writes a log and returns its paths. */
const logOf = (name: string, records: readonly TrajectoryRecord[]) => {
  mkdirSync(path(name), { recursive: true })
  writeFileSync(paths(name).path, linesOf(records))
  return paths(name)
}

const turn = (step: number, changes: Partial<TrajectoryRecord> = {}) => trajectoryRecord(step, changes)

const TWO_TURNS = [
  turn(1, { tokens: ['Hel', 'lo', '\nthere'], reward: 0, parts: { success: 0, tools: 1 }, advantage: 1 }),
  turn(1, {
    ...{ turn: 1, tokens: ['Bye'], reward: 0.5, parts: { success: 1, tools: 2 }, advantage: [5], stopReason: 'length' },
    ...{ toolUse: { calls: 2, errors: 1 }, replies: [{ role: 'tool', text: 'error: no', isError: true }] },
  }),
  turn(2, { trajectoryId: 'b:0', groupId: null, advantage: null }),
]

const rowsOf = async (log: ReturnType<typeof heldRollouts>) => (await log.rollouts()).map(({ row }) => row)

describe('fileRollouts', () => {
  it('adds up the turns of a rollout, as a log in memory does', async () => {
    const log = fileRollouts(liveFiles, logOf('sums', TWO_TURNS))
    const [first, second] = await rowsOf(log)
    expect(first).toMatchObject({
      ...{ id: '1-a_0', step: 1, index: 0, group: '0:task-0', reward: 0.5, length: 4, turns: 2, truncated: true },
      ...{ parts: { success: 1, tools: 3 }, failed: false, advantage: 2, toolCalls: 2, toolErrors: 1, version: 0 },
    })
    expect(second).toMatchObject({ id: '2-b_0', index: 1, group: '2-b_0', failed: true, advantage: null })
    expect(await rowsOf(heldRollouts(TWO_TURNS))).toEqual([first, second])
  })

  it('reads the turns of rollouts, in the order that was asked for', async () => {
    const log = fileRollouts(liveFiles, logOf('turns', TWO_TURNS))
    const [first, second] = await log.rollouts()
    expect(await log.turns([second!, first!])).toEqual([[TWO_TURNS[2]], TWO_TURNS.slice(0, 2)])
    expect(await log.turns([])).toEqual([])
  })

  it('finds text across tokens, in tasks and in results of tools, but not in the JSON around it', async () => {
    const records = [...TWO_TURNS, turn(3, { query: 'Größe "x"', tokens: ['a'] })]
    for (const log of [fileRollouts(liveFiles, logOf('search', records)), heldRollouts(records)]) {
      const found = async (text: string) => [...(await log.search(text))]
      expect(await found('hELLo\nTHERE')).toEqual(['1-a_0'])
      expect(await found('error: NO')).toEqual(['1-a_0'])
      expect(await found('größe "X"')).toEqual(['3-a_0'])
      expect(await found('nthere')).toEqual([])
      expect(await found('trajectoryId')).toEqual([])
    }
  })

  it('reads a log that grows, also when two requests look at once, and without an unfinished line', async () => {
    const place = logOf('grows', TWO_TURNS)
    const log = fileRollouts(liveFiles, place)
    expect(
      await Promise.all([log.rollouts(), log.rollouts()]).then((lists) => lists.map(({ length }) => length)),
    ).toEqual([2, 2])
    const line = linesOf([turn(3)])
    appendFileSync(place.path, line.slice(0, 40))
    expect(await log.rollouts()).toHaveLength(2)
    appendFileSync(place.path, line.slice(40))
    const rollouts = await log.rollouts()
    expect(rollouts).toHaveLength(3)
    expect(await log.rollouts()).toBe(rollouts)
  })

  it('reads a log again that was cut off and written on, as a resumed run does', async () => {
    const place = logOf('cut', TWO_TURNS)
    const log = fileRollouts(liveFiles, place)
    await log.rollouts()
    writeFileSync(place.path, linesOf([turn(1), turn(7, { reward: 3 }), turn(8), turn(9)]))
    expect((await rowsOf(log)).map(({ step }) => step)).toEqual([1, 7, 8, 9])
  })

  it('refuses records of a newer format, and names it', async () => {
    const record = { ...turn(1), format: 3 } as unknown as TrajectoryRecord // of a future version
    await expect(fileRollouts(liveFiles, logOf('newer', [record])).rollouts()).rejects.toThrow(
      'got 3: update tandem-rl',
    )
  })
})

describe('the index of a log', () => {
  const long = (step: number) => turn(step, { query: 'x'.repeat(50_000), trajectoryId: `t:${step}` })
  const records = Array.from({ length: 24 }, (_, i) => long(i + 1))

  /** Changes the rewards in the index, to see if they are used. */
  const mark = (index: string): void => {
    const file = JSON.parse(readFileSync(index, 'utf8')) as { columns: { reward: number[] } } // written by the viewer
    file.columns.reward.fill(-7)
    writeFileSync(index, JSON.stringify(file))
  }

  const rewards = async (place: ReturnType<typeof paths>) =>
    (await rowsOf(fileRollouts(liveFiles, place))).map(({ reward }) => reward)

  it('is written for a long log, used by the next server, and continued when the log has grown', async () => {
    const place = logOf('long', records)
    const rows = await rowsOf(fileRollouts(liveFiles, place))
    mark(place.index)
    expect(new Set(await rewards(place))).toEqual(new Set([-7]))
    appendFileSync(place.path, linesOf([long(99)]))
    const log = fileRollouts(liveFiles, place)
    expect((await rowsOf(log)).map(({ reward }) => reward)).toEqual([...rows.map(() => -7), 1])
    const rollouts = await log.rollouts()
    expect((await log.turns([rollouts[24]!, rollouts[3]!])).map(([first]) => first!.step)).toEqual([99, 4])
  })

  it('is made again for a log that was edited or cut off, and if it is damaged', async () => {
    const place = logOf('edited', records)
    await rewards(place)
    mark(place.index)
    writeFileSync(place.path, readFileSync(place.path, 'utf8').replace('"reward":1', '"reward":2'))
    utimesSync(place.path, new Date(0), new Date(0))
    expect(new Set(await rewards(place))).toEqual(new Set([1, 2]))
    mark(place.index)
    writeFileSync(place.path, linesOf(records.slice(0, 23)))
    expect(new Set(await rewards(place))).toEqual(new Set([1]))
    writeFileSync(place.index, '{"format":1,"ids":["a"]}')
    expect(await rewards(place)).toHaveLength(23)
  })

  it('is not needed: a short log has none, and a place that cannot be written is left', async () => {
    expect(existsSync(paths('sums').index)).toBe(false)
    const { path: log } = logOf('locked', records)
    writeFileSync(path('locked/.view'), 'a file where the folder would be')
    expect(await rewards({ path: log, index: path('locked/.view/rollouts.json') })).toHaveLength(24)
  })
})
