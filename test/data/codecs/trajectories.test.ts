import { memoryBytes } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  decodeTrajectories,
  encodeTrajectories,
  readTrajectories,
  salvageTrajectories,
  type TrajectoryFailure,
} from '../../../src/data/codecs/trajectories.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict, TensorDictError } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { anyTrajectories, collectedBatch } from '../../kit/trajectories.js'

useEngine()

const decoded = (text: string): readonly TensorDict[] => {
  const batches = decodeTrajectories(text)
  if (E.isLeft(batches)) throw new Error(batches.left.reason)
  return batches.right
}

const failureOf = (text: string): TrajectoryFailure =>
  scope(() => {
    const batches = decodeTrajectories(text)
    if (E.isRight(batches)) throw new Error('the text was accepted')
    return batches.left
  })

const small = () =>
  TensorDict(
    {
      query: data(['2 + 2?', '1 + 1?']),
      tokens: { response: ragged('int32', [[7, 8], []]) },
      logProbs: ragged('float32', [[-0.5, Number.NaN], []]),
      next: { reward: tf.tensor1d([1, -0]), done: tf.tensor1d([1, 0], 'bool') },
      source: meta({ name: 'test', seed: 7n }),
    },
    [2],
  )

describe('trajectories as JSON Lines', () => {
  it('are given back, equal in every bit: every TensorDict with a batch axis', () => {
    const law = fc.property(anyTrajectories, (recipe) => {
      scope(() => {
        const td = recipe.build()
        const [back, ...others] = decoded(encodeTrajectories(td))
        expect(others).toEqual([])
        expect(equals(back!, td)).toBe(true)
        expect(encodeTrajectories(back!)).toBe(encodeTrajectories(td)) // also where `equals` sees no difference, as for -0
        return []
      })
    })
    fc.assert(law)
  })

  it('of a real collector are given back, conversations and spans too', async () => {
    using batch = await collectedBatch([3, 1, 2])
    scope(() => {
      const [back] = decoded(encodeTrajectories(batch.value))
      expect(equals(back!, batch.value)).toBe(true)
      return []
    })
  })

  it('are one line for each element, under nested keys, after a header', () => {
    const [header, first, second, ...rest] = scope(() => encodeTrajectories(small())).split('\n')
    expect(rest).toEqual([''])
    expect(first).toBe(
      '{"query":"2 + 2?","tokens":{"response":[7,8]},"logProbs":[-0.5,"NaN"],"next":{"reward":1,"done":true}}',
    )
    expect(second).toBe('{"query":"1 + 1?","tokens":{"response":[]},"logProbs":[],"next":{"reward":-0,"done":false}}')
    expect(JSON.parse(header!)).toMatchObject({
      _schema: { format: 'tandem trajectories', version: 1, batchShape: [2] },
    })
  })

  it('keep keys that look like numbers in their order, and values of any depth that can be written', () => {
    scope(() => {
      const deep = Array.from({ length: 500 }).reduce((inner: unknown) => ({ $type: inner }), null)
      const td = TensorDict({ inner: { deep: data([deep]), note: meta(deep) } }, [1])
      const keys = ['b', '10', '9', '__proto__', '']
      const ordered = keys.reduce<TensorDict>((node, key) => set(node, key, meta(key)), td)
      const [back] = decoded(encodeTrajectories(ordered))
      expect([...back!.entries.keys()]).toEqual(['inner', ...keys])
      expect(equals(back!, ordered)).toBe(true)
      return []
    })
  })

  it('of several batches follow one another, whatever their schemas', () => {
    scope(() => {
      const batches = [small(), TensorDict({ n: data([1]) }, [1]), TensorDict({}, [0, 4]), small()]
      const back = decoded(batches.map(encodeTrajectories).join(''))
      expect(back).toHaveLength(4)
      expect(back.every((td, i) => equals(td, batches[i]!))).toBe(true)
      return []
    })
  })

  it('cannot be written without a batch axis, or with values that no text can hold: all are listed', () => {
    expect(() => encodeTrajectories(TensorDict({}, []))).toThrow(/encodeTrajectories: the TensorDict has no batch axis/)
    const functions = TensorDict({ a: { f: data([() => 1, 2]), g: data([new Map(), [Symbol('s')]]) } }, [2])
    expect(() => encodeTrajectories(functions)).toThrow(TensorDictError)
    expect(() => encodeTrajectories(functions)).toThrow(
      /"a" > "f" > "0": a function .*"g" > "0": an object of class Map .*"g" > "1" > "0": a symbol/,
    )
    scope(() => {
      const complex = TensorDict({ z: tf.complex([1], [2]), m: meta(() => 1) }, [1])
      expect(() => encodeTrajectories(complex)).toThrow(
        /"z": a tensor of type complex64 cannot be written; at "m": a function/,
      )
      return []
    })
  })
})

describe('a damaged file of trajectories', () => {
  const lines = scope(() => encodeTrajectories(small())).split('\n')
  const changed = (line: number, from: string, to: string): string =>
    lines.map((each, i) => (i === line - 1 ? each.replace(from, to) : each)).join('\n')

  it.each([
    [1, '"_schema"', '"schema"', [], /expected a header/],
    [1, '"version":1', '"version":2', [], /the header: version: /],
    [1, '"int32"', '"int64"', [], /the header: entries/],
    [1, '"batchShape":[2],"entries":[["query"', '"batchShape":[],"entries":[["query"', [], /batch axis is missing/],
    [1, '"bigint","value":"7"', '"bigint","value":"x"', [], /source: seed: a \$type "bigint" with invalid content/],
    [2, '"query":"2 + 2?",', '', ['query'], /missing/],
    [2, '[7,8]', '[7,8.5]', ['tokens', 'response'], /value 1 is not int32: 8.5/],
    [2, '[7,8]', '[7,null]', ['tokens', 'response'], /value 1 is not int32: null/],
    [2, '[7,8]', '7', ['tokens', 'response'], /a row is not a list/],
    [2, '"NaN"', '"nan"', ['logProbs'], /value 1 is not float32/],
    [2, '"done":true', '"done":1', ['next', 'done'], /value 0 is not bool: 1/],
    [2, '"done":true', '"done":true,"extra":1', ['next', 'extra'], /the header has no such entry/],
    [2, '{"query"', '["query"', [], /not JSON/],
    [3, '{', '{"_schema":1,', ['_schema'], /no such entry/],
  ])('is named by line and path: line %i with %s as %s', (line, from, to, path, reason) => {
    const failure = failureOf(changed(line, from, to))
    expect(failure).toMatchObject({ _tag: 'TrajectoryFailure', kind: 'damaged', line, path })
    expect(failure.reason).toMatch(reason)
    expect(failure.reason).toMatch(new RegExp(`^line ${line}:`))
  })

  it('cut at any character is torn, and keeps every whole batch and element', () => {
    const text = scope(() => `${encodeTrajectories(small())}${encodeTrajectories(small())}`)
    for (let cut = 1; cut < text.length - 1; cut++) {
      scope(() => {
        const part = text.slice(0, cut)
        const found = salvageTrajectories(part)
        if (E.isLeft(found)) throw new Error(found.left.reason)
        const { batches, torn, rest } = found.right
        const begun = part.split('\n')
        const whole = begun.length - 1 + (lines.includes(begun.at(-1)!) && begun.at(-1) !== '' ? 1 : 0) // whole lines of the six
        expect(batches).toHaveLength(whole < 3 ? 0 : 1)
        expect(torn?.kind).toBe(cut >= text.length / 2 - 1 && cut <= text.length / 2 ? undefined : 'torn')
        const elements = (whole % 3) - 1 // a header comes first
        if (rest === undefined) expect(elements).toBe(-1)
        else
          expect(toNested(rest)).toMatchObject({ query: ['2 + 2?', '1 + 1?'].slice(0, elements), source: { seed: 7n } })
        expect(batches.every((td) => equals(td, small()))).toBe(true)
        return []
      })
    }
  })

  it('never makes decoding throw', () => {
    const text = lines.join('\n')
    const law = fc.property(fc.nat(text.length - 1), fc.nat(12), fc.string({ maxLength: 3 }), (at, removed, added) => {
      scope(() => {
        expect(['Left', 'Right']).toContain(
          decodeTrajectories(text.slice(0, at) + added + text.slice(at + removed))._tag,
        )
        return []
      })
    })
    fc.assert(law, { numRuns: 1000 })
    const deep = `{"_schema":${'{"entries":['.repeat(20_000)}${']}'.repeat(20_000)}}\n`
    expect(failureOf(deep).kind).toBe('damaged')
    const huge =
      '{"_schema":{"format":"tandem trajectories","version":1,"batchShape":[1,4000000000],"entries":[["a",{"kind":"data"}]]}}\n{"a":[1]}\n'
    expect(failureOf(huge).reason).toMatch(/expected 4000000000 items along axis 0, got 1 items/)
  })
})

describe('readTrajectories', () => {
  const bytes = (text: string) => memoryBytes(new TextEncoder().encode(text), 'a.jsonl')

  it('gives the batches of a file one by one, and a torn end last', async () => {
    const text = scope(() => encodeTrajectories(small()).repeat(3))
    let count = 0
    for await (const each of readTrajectories(bytes(text.slice(0, -20)))) {
      count += 1
      if (E.isLeft(each)) expect([count, each.left]).toMatchObject([3, { kind: 'torn', line: 9 }])
      else {
        using batch = each.right
        expect(scope(() => equals(batch.value, small()))).toBe(true)
      }
    }
    expect(count).toBe(3)
  })

  it('ends at a damaged line', async () => {
    const text = scope(() => encodeTrajectories(small()))
    const found = []
    for await (const each of readTrajectories(bytes(`${text}nonsense\n${text}`))) {
      found.push(each._tag)
      if (E.isLeft(each)) expect(each.left).toMatchObject({ kind: 'damaged', line: 4 })
      else each.right.release()
    }
    expect(found).toEqual(['Right', 'Left'])
  })
})

describe('an element', () => {
  it('keeps its type: a reward of -0 is not 0', () => {
    scope(() => {
      const [back] = decoded(encodeTrajectories(small())) as readonly ReturnType<typeof small>[] // the written value
      expect(Object.is(get(back!, 'next', 'reward').dataSync()[1], -0)).toBe(true)
      return []
    })
  })
})
