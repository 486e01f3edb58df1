/** The choice of threads and micro-batches by measured times. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CalibrateOptions, calibrate } from '../../src/run/define/calibrate.js'
import {
  type Candidate,
  chooseCandidate,
  isDecided,
  microBatchCandidates,
  pairedSpeed,
  parallelCandidates,
} from '../../src/run/metrics/calibration.js'

const time = fc.double({ min: 0.1, max: 1000, noNaN: true })
const round = fc.record({ best: time, candidate: time })
const rounds = fc.array(round, { minLength: 5, maxLength: 5 })

describe('chooseCandidate', () => {
  it('keeps the best one if the candidate is never 5 % faster', () => {
    const slower = fc.array(fc.tuple(time, fc.double({ min: 0.96, max: 3, noNaN: true })), { maxLength: 5 })
    fc.assert(
      fc.property(slower, (times) => {
        expect(chooseCandidate(times.map(([best, factor]) => ({ best, candidate: best * factor })))).toBe('best')
      }),
    )
  })

  it('chooses a candidate that is 5 % faster in each of three rounds or more', () => {
    const faster = fc.array(fc.tuple(time, fc.double({ min: 0.1, max: 0.95, noNaN: true })), {
      minLength: 3,
      maxLength: 5,
    })
    fc.assert(
      fc.property(faster, (times) => {
        expect(chooseCandidate(times.map(([best, factor]) => ({ best, candidate: best * factor })))).toBe('candidate')
      }),
    )
  })

  it('does not depend on the order of the rounds or the unit of time', () => {
    fc.assert(
      fc.property(rounds, fc.integer({ min: -4, max: 4 }), (times, power) => {
        const scaled = times.map(({ best, candidate }) => ({
          best: best * 2 ** power,
          candidate: candidate * 2 ** power,
        }))
        expect(chooseCandidate([...scaled].reverse())).toBe(chooseCandidate(times))
      }),
    )
  })

  it('never prefers each of two candidates to the other one', () => {
    fc.assert(
      fc.property(rounds, (times) => {
        const swapped = times.map(({ best, candidate }) => ({ best: candidate, candidate: best }))
        expect([chooseCandidate(times), chooseCandidate(swapped)]).toContain('best')
      }),
    )
  })

  it('chooses as after all rounds once it is decided', () => {
    fc.assert(
      fc.property(rounds, (times) => {
        const first = times.findIndex((_, i) => isDecided(times.slice(0, i + 1)))
        expect(first).toBeGreaterThanOrEqual(2)
        expect(chooseCandidate(times.slice(0, first + 1))).toBe(chooseCandidate(times))
      }),
    )
  })

  it('prefers one slow round less than the median', () => {
    const times = [1, 1, 9, 1, 1].map((best) => ({ best, candidate: 1 }))
    expect([pairedSpeed(times), chooseCandidate(times)]).toEqual([1, 'best'])
  })
})

const BASE: Candidate = { threads: 2, workers: 1, microBatch: 4096 }

describe('candidates', () => {
  it('divide all cores or half of them among workers', () => {
    const shown = (cores: number, mostWorkers = 16) =>
      parallelCandidates(BASE, { cores, mostWorkers }).map(({ threads, workers }) => `${workers} x ${threads}`)
    expect(shown(1)).toEqual(['1 x 1'])
    expect(shown(2)).toEqual(['2 x 1', '1 x 1'])
    expect(shown(6)).toEqual(['1 x 6', '2 x 3', '4 x 1', '1 x 3', '2 x 1'])
    expect(shown(16, 2)).toEqual(['1 x 16', '2 x 8', '1 x 8', '2 x 4'])
  })

  it('use at most the cores, are different from each other and from the base', () => {
    const small = fc.integer({ min: 1, max: 64 })
    fc.assert(
      fc.property(small, small, small, (cores, mostWorkers, threads) => {
        const base = { ...BASE, threads }
        const all = parallelCandidates(base, { cores, mostWorkers })
        for (const each of all) {
          expect(each.workers * each.threads!).toBeLessThanOrEqual(cores)
          expect(each.workers).toBeLessThanOrEqual(mostWorkers)
        }
        expect(new Set([base, ...all].map((each) => JSON.stringify(each))).size).toBe(all.length + 1)
      }),
    )
  })

  it('have other workers only, if the threads of the engine are fixed', () => {
    const all = parallelCandidates({ ...BASE, threads: null }, { cores: 4, mostWorkers: 4 })
    expect(all.map(({ threads, workers }) => [threads, workers])).toEqual([
      [null, 2],
      [null, 4],
    ])
  })

  it('have other micro-batches if these divide the batch differently', () => {
    const pieces =
      (tokens: number) =>
      ({ microBatch }: Candidate) =>
        Math.ceil(tokens / microBatch)
    const shown = (tokens: number) => microBatchCandidates(BASE, pieces(tokens)).map(({ microBatch }) => microBatch)
    expect(shown(1000)).toEqual([])
    expect(shown(3000)).toEqual([1024, 2048])
    expect(shown(20_000)).toEqual([1024, 2048, 8192])
  })
})

/** Scripted trials, whose batches take as long as `msOf` returns, and what is done with them. */
const scripted = (msOf: (candidate: Candidate) => number, fits: CalibrateOptions['trials']['fits'] = () => true) => {
  let [now, threads, open, most] = [0, 2, 0, 0]
  const learned: Candidate[] = []
  const abort = new AbortController()
  const options: CalibrateOptions = {
    trials: {
      base: { workers: 1, microBatch: 4096 },
      mostWorkers: 4,
      pieces: ({ microBatch }) => Math.ceil(16_384 / microBatch),
      fits,
      open: (candidate) => {
        open++
        most = Math.max(most, open)
        return {
          learn: async () => {
            expect(threads).toBe(candidate.threads)
            learned.push(candidate)
            now += msOf(candidate)
          },
          close: async () => {
            open--
          },
        }
      },
    },
    threads: {
      count: () => threads,
      use: (count) => {
        threads = count
      },
    },
    cores: 4,
    clock: { now: () => now, breathe: async () => undefined },
    signal: abort.signal,
    onMeasured: () => undefined,
  }
  return { run: () => calibrate(options), abort, state: () => ({ now, threads, open, most, learned }) }
}

describe('calibrate', () => {
  it('keeps the settings if all candidates are equally fast, and closes all trials', async () => {
    const { run, state } = scripted(() => 10)
    const found = await run()
    expect(found).toMatchObject({ chosen: BASE, omitted: 0 })
    expect(found?.measured.map(({ speed }) => speed)).toEqual(found?.measured.map(() => 1))
    expect(state()).toMatchObject({ threads: 2, open: 0, most: 2 })
  })

  it('chooses the fastest threads and workers, and then the fastest micro-batch with them', async () => {
    const { run, state } = scripted(
      ({ threads, workers, microBatch }) => 100 / workers + threads! + (microBatch === 2048 ? 0 : 50),
    )
    expect(await run()).toMatchObject({ chosen: { threads: 1, workers: 4, microBatch: 2048 }, omitted: 0 })
    expect(state()).toMatchObject({ threads: 2, open: 0, most: 2 })
  })

  it('measures within 30 seconds, and keeps what is best until then', async () => {
    const { run, state } = scripted(({ workers }) => 1500 / workers)
    const found = await run()
    expect(found).toMatchObject({ chosen: { workers: 2 }, omitted: 5 })
    expect(state().now).toBeLessThanOrEqual(30_000)
  })

  it('learns two batches with the settings if these take longer than that', async () => {
    const { run, state } = scripted(() => 60_000)
    expect(await run()).toMatchObject({ chosen: BASE, measured: [{ seconds: 60 }] })
    expect(state()).toMatchObject({ learned: [BASE, BASE], open: 0 })
  })

  it('omits candidates that do not fit into the memory', async () => {
    const { run, state } = scripted(
      ({ workers }) => 100 / workers,
      ({ workers }) => workers < 4,
    )
    expect(await run()).toMatchObject({ chosen: { workers: 2 }, omitted: 1 })
    expect(state().learned.some(({ workers }) => workers === 4)).toBe(false)
  })

  it('ends after the current batch when the signal is aborted', async () => {
    const { run, abort, state } = scripted(({ threads }) => {
      if (threads === 4) abort.abort()
      return 10
    })
    expect(await run()).toBeNull()
    expect(state()).toMatchObject({ open: 0, threads: 2 })
    expect(state().learned.filter(({ threads }) => threads === 4)).toHaveLength(1)
  })

  it('closes all trials if one of them fails', async () => {
    const { run, state } = scripted(({ workers }) => {
      if (workers === 2) throw new RangeError('a thread has ended')
      return 10
    })
    await expect(run()).rejects.toThrow('a thread has ended')
    expect(state()).toMatchObject({ open: 0, threads: 2 })
  })
})
