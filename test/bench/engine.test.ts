/**
 * The parts of the engine benchmark that make figures out of times. What it measures is checked by
 * the benchmark itself.
 */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Figure, Outcome } from '../../bench/engine/figures.js'
import { noise, noiseIds, saltOf } from '../../bench/engine/noise.js'
import { type Circumstances, readingOf, renderPage, short } from '../../bench/engine/page.js'
import { agree, ratioOf } from '../../bench/engine/statistics.js'
import { KINDS, REDUCTIONS, WORKLOADS } from '../../bench/engine/workloads.js'

describe('the ratio of two programs', () => {
  it('is above 1 if theirs takes longer', () => {
    expect(ratioOf([[2, 2, 2]], [[1, 1]])?.median).toBe(2)
  })

  it('compares turn by turn, so that a machine that slows down does not matter', () => {
    const slowing = [1, 2, 4, 8]
    expect(
      ratioOf(
        slowing.map((x) => [3 * x]),
        slowing.map((x) => [x]),
      ),
    ).toEqual({ median: 3, low: 3, high: 3 })
  })

  it('uses the rounds that both had, and is not there if they had none', () => {
    expect(ratioOf([[2]], [[1], [1000]])?.median).toBe(2)
    expect(ratioOf([], [[1]])).toBeUndefined()
  })
})

describe('the comparison of results', () => {
  it('allows for rounding and for nothing else', () => {
    expect(agree(1, 1.0005)).toBe(true)
    expect(agree(1, 1.01)).toBe(false)
    expect(agree(1, -1)).toBe(false)
    expect(agree(0, 0)).toBe(true)
    expect(agree(Number.NaN, Number.NaN)).toBe(false)
  })
})

describe('the inputs', () => {
  it('are those that the Python program makes', () => {
    // Computed by `noise`, `noise_ids` and `salt_of` of peer.py.
    expect(Array.from(noise(3, 1))).toEqual([-0.31039074063301086, 0.3923978805541992, -0.06193382292985916])
    expect(Array.from(noiseIds(4, 7, 253))).toEqual([241, 162, 244, 139])
    expect(saltOf('model.norm.weight')).toBe(3617687973)
  })

  it('stay in their range', () => {
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 31 }), fc.integer({ min: 1, max: 1000 }), (salt, limit) => {
        for (const id of noiseIds(50, salt, limit)) {
          expect(id).toBeGreaterThanOrEqual(0)
          expect(id).toBeLessThan(limit)
        }
        for (const x of noise(50, salt)) expect(Math.abs(x)).toBeLessThanOrEqual(0.5)
      }),
    )
  })
})

describe('the workloads', () => {
  it('have names of their own', () => {
    expect(new Set(WORKLOADS.map(({ name }) => name)).size).toBe(WORKLOADS.length)
  })

  it('are all known to the Python program', () => {
    const source = readFileSync('bench/engine/peer.py', 'utf8')
    for (const name of [...KINDS, ...REDUCTIONS]) expect(source).toContain(`    "${name}": `)
  })
})

const training = WORKLOADS.find(({ name }) => name === 'train-step-128')!
const call = WORKLOADS.find(({ name }) => name === 'call')!

const figure: Figure = {
  tag: 'Figure',
  workload: training,
  contestant: 'onnxruntime',
  version: 'onnxruntime-node 1.2.3',
  threads: 2,
  seconds: { median: 0.5, low: 0.4, high: 0.8 },
  runs: 12,
  rounds: 3,
  firstSeconds: 2,
  peakMiB: 300,
  value: 1,
  compiles: 0,
  fallbacks: 4,
}

const here: Circumstances = {
  host: { cpu: 'a processor', cores: 2, node: 'v20.0.0' },
  memoryGiB: 8,
  system: 'Linux 1',
  date: '2026-01-02',
  load: [0.5, 2.5],
  threads: 2,
  rounds: 3,
  turnSeconds: 0.2,
  command: 'a command',
}

describe('the page', () => {
  it('reads rates as work in a second, and overhead as microseconds for one', () => {
    expect(readingOf(figure)).toBe('4096/s (2560–5120)')
    expect(readingOf({ ...figure, workload: call, seconds: { median: 0.005, low: 0.004, high: 0.006 } })).toBe(
      '10.0 µs (8.00–12.0)',
    )
  })

  it('shortens numbers to three digits', () => {
    expect([0.1234, 12.34, 1234, 12345, 2.5e6, 1.2e11].map(short)).toEqual([
      '0.12',
      '12.3',
      '1234',
      '12.3 k',
      '2.50 M',
      '120 G',
    ])
  })

  it('shows figures with their ratio, threads, memory, counters, and what is left out', () => {
    const ratio = { median: 1.5, low: 1.25, high: 2 }
    const outcomes: readonly Outcome[] = [
      figure,
      { ...figure, contestant: 'torch', version: '9.9', seconds: { median: 1, low: 1, high: 1 }, ratio, peakMiB: 400 },
      { ...figure, threads: 1, seconds: { median: 0.75, low: 0.7, high: 0.8 } },
      { tag: 'Absent', contestant: 'wasm', workload: training, threads: 2, problem: 'no such kernel' },
    ]
    const page = renderPage(outcomes, here)
    expect(page).toContain('| 4096/s (2560–5120) | 2048/s (2048–2048) | 1.50 (1.25–2.00) |')
    expect(page).toContain('| 1.50 (2731/s, 4096/s) |  |')
    expect(page).toContain('| 300 | 400 |')
    expect(page).toContain('In 24 timed runs onnxruntime compiled 0 graphs and fell back to the cpu backend 8 times.')
    expect(page).toContain('- tfjs wasm, train-step-128, 2 threads: no such kernel')
    expect(page).toContain('0.5 before, 2.5 after')
  })
})
