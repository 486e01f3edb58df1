import { describe, expect, it } from 'vitest'
import { rooflineShare, stepFigures } from '../src/profile/figures.js'
import { profilePicture } from '../src/profile/picture.js'
import { profileTable } from '../src/profile/table.js'
import { type ProfiledCall, readCalls, type TraceEvent } from '../src/profile/trace.js'

type Shapes = readonly (readonly number[])[]

const node = (operator: string, microseconds: number, inputs: Shapes, outputs: Shapes): TraceEvent => ({
  cat: 'Node',
  name: 'op0_kernel_time',
  dur: microseconds,
  args: {
    op_name: operator,
    input_type_shape: inputs.map((shape) => ({ float: shape })),
    output_type_shape: outputs.map((shape) => ({ float: shape })),
  },
})

const session = (name: string, microseconds: number): TraceEvent => ({ cat: 'Session', name, dur: microseconds })

const onlyOperator = (event: TraceEvent) => readCalls([event, session('model_run', 10)])[0]!.operators[0]!

describe('readCalls', () => {
  it('divides the events of a session into its runs', () => {
    const calls = readCalls([
      session('session_initialization', 900),
      node('Add', 10, [[4], [4]], [[4]]),
      session('SequentialExecutor::Execute', 15),
      session('model_run', 16),
      node('Mul', 20, [[4], []], [[4]]),
      node('Exp', 30, [[4]], [[4]]),
      session('model_run', 60),
    ])
    expect(calls.map(({ innerMs, operators }) => [innerMs, operators.map(({ operator }) => operator)])).toEqual([
      [0.016, ['Add']],
      [0.06, ['Mul', 'Exp']],
    ])
  })

  it('writes the shapes of inputs and outputs, and 1 for a scalar', () => {
    expect(onlyOperator(node('Mul', 1, [[4, 2], []], [[4, 2]])).shapes).toBe('4x2 1 -> 4x2')
  })

  it('counts the bytes of inputs and outputs by their types', () => {
    const event: TraceEvent = {
      ...node('Cast', 1, [], []),
      args: { op_name: 'Cast', input_type_shape: [{ int64: [3, 2] }], output_type_shape: [{ bool: [3, 2] }] },
    }
    expect(onlyOperator(event)).toMatchObject({ bytes: 6 * 8 + 6, operations: 0 })
  })

  it.each([
    ['plain', [3, 5], [5, 7], 2 * 3 * 5 * 7],
    ['with a transposed first factor', [5, 3], [5, 7], 2 * 3 * 5 * 7],
    ['with a transposed second factor', [3, 5], [7, 5], 2 * 3 * 5 * 7],
  ])('counts the operations of a product %s', (_, a, b, operations) => {
    expect(onlyOperator(node('Gemm', 1, [a, b], [[3, 7]])).operations).toBe(operations)
  })

  it('counts a constant factor, which the trace leaves out, also beside a bias', () => {
    const counted = { operations: 2 * 3 * 5 * 7, bytes: 4 * (3 * 5 + 5 * 7 + 3 * 7) }
    expect(onlyOperator(node('Gemm', 1, [[3, 5]], [[3, 7]]))).toMatchObject(counted)
    const withBias = { ...counted, bytes: counted.bytes + 4 * 7 }
    expect(onlyOperator(node('Gemm', 1, [[3, 5], [7]], [[3, 7]]))).toMatchObject(withBias)
  })

  it('counts those of a batch of products, of which a factor may serve all', () => {
    const batch = node(
      'FusedMatMul',
      1,
      [
        [2, 4, 3, 5],
        [5, 7],
      ],
      [[2, 4, 3, 7]],
    )
    expect(onlyOperator(batch).operations).toBe(2 * 8 * 3 * 5 * 7)
  })

  it('counts those of attention over the past and the new keys', () => {
    const shapes = [
      [1, 2, 3, 4],
      [1, 2, 3, 4],
      [1, 2, 3, 4],
      [1, 1, 3, 8],
      [1, 2, 5, 4],
      [1, 2, 5, 4],
    ]
    expect(onlyOperator(node('Attention', 1, shapes, [[1, 2, 3, 4]])).operations).toBe(2 * 2 * (2 * 3 * 4) * (3 + 5))
  })
})

const calls: readonly ProfiledCall[] = [
  {
    operators: [
      { operator: 'Gemm', shapes: '2x2 2x2 -> 2x2', milliseconds: 6, operations: 4e9, bytes: 1e6 },
      { operator: 'Add', shapes: '4 4 -> 4', milliseconds: 2, operations: 0, bytes: 2e7 },
    ],
    innerMs: 9,
    outerMs: 10,
  },
  {
    operators: [{ operator: 'Gemm', shapes: '4x4 4x4 -> 4x4', milliseconds: 2, operations: 2e9, bytes: 1e6 }],
    innerMs: 3,
    outerMs: 4,
  },
]
const peaks = { operations: 1e12, bytes: 1e10 }
const figures = stepFigures({ steps: 2, wallMs: 20, idleMs: 2, calls }, peaks)

describe('stepFigures', () => {
  it('is about one step, and its parts add up to it', () => {
    expect(figures.stepMs).toBe(10)
    const all = [...figures.operators, ...figures.parts].reduce((total, { milliseconds }) => total + milliseconds, 0)
    expect(all).toBeCloseTo(figures.stepMs)
    expect(Object.fromEntries(figures.parts.map(({ name, milliseconds }) => [name, milliseconds]))).toEqual({
      'between operators': 1,
      'feeds and results': 1,
      JavaScript: 2,
      waiting: 1,
    })
  })

  it('adds up an operator, with the least time by arithmetic or by memory', () => {
    expect(
      figures.operators.map(({ operator, count, milliseconds, peakMs }) => [operator, count, milliseconds, peakMs]),
    ).toEqual([
      ['Gemm', 1, 4, 3],
      ['Add', 0.5, 1, 1],
    ])
    expect(rooflineShare(figures)).toBeCloseTo(0.4)
  })

  it('can have a row for each combination of shapes', () => {
    const { operators } = stepFigures({ steps: 2, wallMs: 20, idleMs: 2, calls }, peaks, 'shapes')
    expect(operators.map(({ operator, milliseconds }) => [operator, milliseconds])).toEqual([
      ['Gemm 2x2 2x2 -> 2x2', 3],
      ['Add 4 4 -> 4', 1],
      ['Gemm 4x4 4x4 -> 4x4', 1],
    ])
  })
})

describe('profileTable', () => {
  it('has rates against the peaks, and the whole step last', () => {
    const lines = profileTable(figures, peaks).split('\n')
    expect(lines[1]).toMatch(/^Gemm +1 +4\.00 +40 % +750\.0 +75 % +0\.3 +2\.5 %$/)
    expect(lines[2]).toMatch(/^Add +1 +1\.00 +10 % +10\.0 +100 %$/)
    expect(lines).toContainEqual(expect.stringMatching(/^step +10\.00 +100 %$/))
  })

  it('adds up operators that hardly matter', () => {
    const tiny = { operator: 'Neg', milliseconds: 0.01, operations: 0, bytes: 8, count: 3, peakMs: 0 }
    const text = profileTable(
      { ...figures, operators: [...figures.operators, tiny, { ...tiny, operator: 'Abs' }] },
      peaks,
    )
    expect(text).toMatch(/^2 others +6 +0\.02 +0\.2 %$/m)
    expect(text).not.toContain('Neg')
  })
})

describe('profilePicture', () => {
  it('has a bar for each operator and each other part, and escapes its title', () => {
    const svg = profilePicture(figures, 'a < b')
    expect(svg).toContain('a &lt; b')
    expect(svg.match(/class="all"/g)).toHaveLength(2)
    expect(svg.match(/class="peak"/g)).toHaveLength(2)
    expect(svg.match(/class="part"/g)).toHaveLength(4)
  })
})
