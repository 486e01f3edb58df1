/** Alarms over records: once for each episode, none in a run that goes well. */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ALARM_KINDS, type AlarmKind, type AlarmState } from '../../src/run/metrics/alarmRules.js'
import {
  type AlarmLimits,
  DEFAULT_ALARM_LIMITS,
  endingAlarm,
  isCollapse,
  watchStep,
  watchSteps,
} from '../../src/run/metrics/alarms.js'
import type { StepRecord } from '../../src/run/metrics/records.js'
import { stepRecord } from '../kit/records.js'

type Changes = NonNullable<Parameters<typeof stepRecord>[1]>

/** A step with a changing reward. */
const step = (number: number, changes: Changes = {}): StepRecord =>
  stepRecord(number, { reward: 0.5 + 0.01 * (number % 7), ...changes })

/** Steps from 1 on, each with its changes. */
const steps = (changes: readonly Changes[]): readonly StepRecord[] => changes.map((each, i) => step(i + 1, each))

const times = <T>(count: number, value: T): readonly T[] => Array.from({ length: count }, () => value)

/** Alarms of steps as `kind step`. */
const heard = (records: readonly StepRecord[], limits = DEFAULT_ALARM_LIMITS): readonly string[] =>
  watchSteps(records, limits).alarms.map(({ alarm, step: at, since }) => `${alarm} ${since}-${at}`)

/** The default limits with overrides. */
const limited = (changes: Partial<AlarmLimits>): AlarmLimits => ({ ...DEFAULT_ALARM_LIMITS, ...changes })

/** Distributes numbers by name over the fields of a step record. */
const changesOf = ({ accuracy = 0, ...numbers }: Readonly<Record<string, number>>): Changes => ({
  ...numbers,
  parts: { success: accuracy },
  update: numbers,
})

const GOOD = { metrics: { illegalMoves: 0.04 } }
/** Numbers beyond the limit of each kind. */
const BAD: Readonly<Record<AlarmKind, Changes>> = {
  'ratio-drift': { update: { ess: 0.3 } },
  'sampler-gap': { update: { maxLogProbGap: 2 } },
  'kl-runaway': { update: { klToRef: 3 } },
  'entropy-collapse': { update: { entropy: 0.0001 } },
  'zero-variance': { groupsWithoutSignal: 4 },
  truncation: { truncated: 0.9 },
  'reward-stuck': { reward: 0 },
  'illegal-moves': { metrics: { illegalMoves: 0.4 } },
  'illegal-rise': { metrics: { illegalMoves: 0.08 } },
  'loses-to-past': { metrics: { lossToPast: 0.5 } },
  'same-game': { metrics: { sameGame: 0.97 } },
  'reward-collapse': { reward: 0.01 },
  'all-truncated': { truncated: 1 },
  'kl-explosion': { update: { klToRef: 7 } },
  'length-collapse': { reward: 0, completionTokens: 1 },
  'entropy-explosion': { reward: 0, update: { entropy: 9 } },
}

/** Alarms of lower limits that the numbers of a kind raise too. */
const ALSO: Partial<Record<AlarmKind, Partial<AlarmLimits>>> = {
  'illegal-moves': { 'illegal-rise': null },
  'reward-collapse': { 'reward-stuck': null },
  'all-truncated': { truncation: null },
  'kl-explosion': { 'kl-runaway': null },
  'length-collapse': { 'reward-collapse': null, 'reward-stuck': null },
  'entropy-explosion': { 'reward-collapse': null, 'reward-stuck': null },
}

describe('alarms of a run', () => {
  it('are silent in the run that comes with the package', () => {
    const file = new URL('../golden/shippedRun.json', import.meta.url)
    const columns = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, readonly number[]>> // made from its metrics.jsonl
    const records = columns.reward!.map((_, i) =>
      step(i + 1, changesOf(Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[i]!])))),
    )
    expect(records).toHaveLength(60)
    expect(heard(records)).toEqual([])
    expect(heard(records, limited({ 'kl-runaway': 0.02 }))).toEqual(['kl-runaway 4-6']) // they are watched
  })

  it.each(['ratio-drift', 'sampler-gap'] as const)('%s of stale rollouts names their staleness', (kind) => {
    const overlap = { meanLag: 0.5, stale: 0, failed: 0, filtered: 0, samplingSeconds: null, bothSeconds: null }
    const messages = [0, 1, 3].map(
      (maxLag) => watchSteps([step(1, { ...BAD[kind], overlap: { ...overlap, maxLag } })], DEFAULT_ALARM_LIMITS).alarms,
    )
    const text = messages.map(([alarm]) => alarm!.message)
    expect(text[0]).not.toContain('stale')
    expect(text[1]).toContain(
      'the rollouts are up to 1 update stale, which alone has this effect: use a smaller maxLag',
    )
    expect(text[2]).toContain('the rollouts are up to 3 updates stale')
    expect(text[1]).not.toContain('they compute different numbers')
  })

  it.each([
    ['ratio-drift', 4, 4],
    ['sampler-gap', 4, 4],
    ['kl-runaway', 4, 6],
    ['entropy-collapse', 4, 6],
    ['zero-variance', 4, 8],
    ['truncation', 4, 6],
    ['illegal-moves', 4, 6],
    ['illegal-rise', 4, 6],
    ['loses-to-past', 4, 8],
    ['same-game', 4, 8],
    ['reward-collapse', 4, 5],
    ['all-truncated', 4, 5],
    ['kl-explosion', 4, 5],
    ['length-collapse', 4, 5],
    ['entropy-explosion', 4, 5],
  ] as const)(
    '%s that begins in step %d is told in step %d, once, and again only after it was over',
    (kind, since, at) => {
      const bad = BAD[kind]
      const limits = limited(ALSO[kind] ?? {})
      const episode = [...times(3, GOOD), ...times(12, bad)]
      expect(heard(steps(episode), limits)).toEqual([`${kind} ${since}-${at}`])
      const interrupted = [...episode, GOOD, GOOD, ...times(8, bad)]
      expect(heard(steps(interrupted), limits)).toEqual([`${kind} ${since}-${at}`])
      const second = heard(steps([...episode, ...times(3, GOOD), ...times(8, bad)]), limits)
      expect(second).toEqual([`${kind} ${since}-${at}`, `${kind} 19-${19 + at - since}`])
    },
  )

  it('tell of a reward that has not moved for 20 steps', () => {
    const limits = limited({ 'reward-collapse': null })
    expect(heard(steps([GOOD, ...times(19, BAD['reward-stuck'])]), limits)).toEqual([])
    expect(heard(steps([GOOD, ...times(20, BAD['reward-stuck'])]), limits)).toEqual(['reward-stuck 2-21'])
  })

  it('find a reward that falls to nothing after two steps, the first collapse of a rate that is too high', () => {
    const falling = [0.48, 0.47, 0.01, 0, 0].map((reward) => ({ reward, trajectories: 64 }))
    expect(heard(steps(falling))).toEqual(['reward-collapse 3-4'])
    const { alarms } = watchSteps(steps(falling), DEFAULT_ALARM_LIMITS)
    expect(alarms.map(isCollapse)).toEqual([true])
    expect(alarms[0]!.message).toContain('use a lower --learning-rate')
  })

  it('take a rare reward, or none from the start, for no collapse', () => {
    const rare = [0.05, 0, 0.05, 0, 0, 0, 0.05, 0].map((reward) => ({ reward, trajectories: 64 }))
    expect(heard(steps(rare))).toEqual([])
    expect(heard(steps(times(8, { reward: 0 })))).toEqual([])
    expect(heard(steps([0.5, -3, -3].map((reward) => ({ reward: -1 - reward }))))).toEqual([])
  })

  it('find a collapse of a rare reward after one step, in which completions become empty or random', () => {
    const start = { reward: 0.0625, completionTokens: 43.75, truncated: 0.81, update: { entropy: 2.57 } }
    const empty = [1.06, 1.22, 1].map((completionTokens) => ({
      reward: 0,
      completionTokens,
      update: { entropy: 0.2 },
    }))
    expect(heard(steps([start, ...empty]))).toEqual(['length-collapse 2-3'])
    const random = times(3, { ...start, reward: 0, update: { entropy: 10.1 } })
    const limits = limited({ truncation: null })
    expect(heard(steps([start, ...random]), limits)).toEqual(['entropy-explosion 2-3'])
    const { alarms } = watchSteps(steps([start, ...empty]), DEFAULT_ALARM_LIMITS)
    expect(alarms.map(isCollapse)).toEqual([true])
    expect(alarms[0]!.message).toContain('use a lower --learning-rate, or train an adapter')
  })

  it('take short completions that earn their reward for no collapse', () => {
    const short = [40, 20, 4, 2, 2].map((completionTokens, i) => ({ reward: 0.1 + 0.1 * i, completionTokens }))
    expect(heard(steps(short))).toEqual([])
  })

  it('take completions that were always truncated for no collapse', () => {
    expect(heard(steps(times(6, { truncated: 1 })), limited({ truncation: null }))).toEqual([])
  })

  it('take standing still at the top for success', () => {
    const solved = { parts: { success: 0.97 }, reward: 1, groupsWithoutSignal: 4, update: { entropy: 0.0001 } }
    expect(heard(steps([...times(3, GOOD), ...times(40, solved)]))).toEqual([])
  })

  it('find the one update of a step whose ratios left', () => {
    const { update } = step(1)
    const records = [step(1, { update: { ess: 0.9 }, updates: [update, { ...update, ess: 0.2 }] })]
    expect(heard(records)).toEqual(['ratio-drift 1-1'])
  })

  it('say nothing of the update of a step that had none', () => {
    const idle = { update: { tokens: 0, ess: 0, entropy: 0, maxLogProbGap: 0, klToRef: null } }
    expect(heard(steps([...times(3, GOOD), ...times(3, idle)]))).toEqual([])
  })

  it('hold a number that is none for beyond every limit', () => {
    const [alarm] = watchSteps([step(1, { update: { maxLogProbGap: Number.NaN } })], DEFAULT_ALARM_LIMITS).alarms
    expect(alarm).toMatchObject({ alarm: 'sampler-gap', value: null, limit: 1 })
  })

  it('say what is wrong and what to change', () => {
    const { alarms } = watchSteps(steps(times(3, BAD.truncation)), DEFAULT_ALARM_LIMITS)
    expect(alarms).toEqual([
      {
        ...{ alarm: 'truncation', step: 3, since: 1, value: 0.9, limit: 0.5 },
        message:
          'truncation: the share of completions that the token limit cut off is 0.9, above 0.5 for 3 steps: ' +
          'cut-off completions rarely earn a reward: use more --max-new-tokens, or --truncated mask',
      },
    ])
    expect(endingAlarm('non-finite', 4, 'the loss is NaN')).toMatchObject({
      step: 4,
      since: 4,
      message: 'non-finite: the loss is NaN',
    })
  })

  it('are silent where their limit is off', () => {
    expect(heard(steps(times(9, BAD.truncation)), limited({ truncation: null }))).toEqual([])
  })
})

const anyStep = fc.subarray([...ALARM_KINDS]).map((kinds): Changes => {
  const all = kinds.map((kind) => BAD[kind])
  return Object.assign({}, ...all, {
    update: Object.assign({}, ...all.map(({ update }) => update)) as object,
  }) as Changes // of the same fields
})

describe('laws of alarms', () => {
  it('watching in two parts, with the memory of the first as JSON, is watching at once', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), fc.nat(60), (changes, cut) => {
        const records = steps(changes)
        const first = watchSteps(records.slice(0, cut), DEFAULT_ALARM_LIMITS)
        let state = JSON.parse(JSON.stringify(first.state)) as AlarmState // of the same form
        const alarms = [...first.alarms]
        for (const record of records.slice(cut)) {
          const next = watchStep(state, record, DEFAULT_ALARM_LIMITS)
          state = next.state
          alarms.push(...next.alarms)
        }
        expect({ state, alarms }).toEqual(watchSteps(records, DEFAULT_ALARM_LIMITS))
      }),
    )
  })

  it('a kind is emitted at most once in any four steps, and only beyond its limit', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), (changes) => {
        const { alarms } = watchSteps(steps(changes), DEFAULT_ALARM_LIMITS)
        for (const kind of ALARM_KINDS) {
          const told = alarms.filter(({ alarm }) => alarm === kind)
          for (const [i, { step: at }] of told.entries()) if (i > 0) expect(at - told[i - 1]!.step).toBeGreaterThan(3)
        }
      }),
    )
  })

  it('limits of off never raise an alarm', () => {
    const off = Object.fromEntries(ALARM_KINDS.map((kind) => [kind, null])) as AlarmLimits // one for each kind
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), (changes) => {
        expect(watchSteps(steps(changes), off).alarms).toEqual([])
      }),
    )
  })
})
