import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type BackendName, onBackend } from '../../../test/kit/backends.js'
import { useOnnxRuntime, valuesOf } from '../../../test/kit/engine.js'
import { inputsOf, programs, runProgram } from '../../../test/kit/program.js'
import { discard, liveTensors, type Owned, own, ownedCount, scope, TENSORS, tensorsOf } from '../src/scope.js'

useOnnxRuntime()

const count = (): number => tf.memory().numTensors

/** Runs a law on every backend, and checks that it left no tensor. */
const onEach = (law: () => void): void => {
  for (const name of ['onnxruntime', 'cpu'] satisfies BackendName[]) {
    onBackend(name, () => {
      const before = count()
      law()
      expect(count(), `tensors left on ${name}`).toBe(before)
    })
  }
}

/** Some of the values, each wrapped in another kind of container. */
const wrap = (tensors: readonly tf.Tensor[]): unknown => ({
  list: tensors.filter((_, i) => i % 4 === 0),
  map: new Map(tensors.filter((_, i) => i % 4 === 1).map((t) => [t.id, { t }])),
  set: new Set(tensors.filter((_, i) => i % 4 === 2)),
  held: { [TENSORS]: () => tensors.filter((_, i) => i % 4 === 3) },
})

const chosen = fc.array(fc.boolean(), { minLength: 12, maxLength: 12 })

describe('scope', () => {
  it('law 75: makes as many tensors live on as the result has new ones', () => {
    const law = fc.property(programs(), chosen, (program, keep) => {
      const inputs = inputsOf(program)
      const before = count()
      const result = scope(() => wrap(runProgram(program, inputs).filter((_, i) => keep[i])))
      const fresh = tensorsOf(result).filter((t) => !inputs.includes(t))
      expect(count()).toBe(before + fresh.length)
      tf.dispose([inputs, fresh])
    })
    onEach(() => fc.assert(law, { numRuns: 50 }))
  })

  it('law 75: frees everything if the function throws, and gives the error on', () => {
    const law = fc.property(programs(), fc.nat(9), (program, place) => {
      const inputs = inputsOf(program)
      const before = count()
      const failing = (step: number): void => {
        if (step === place % program.steps.length) throw new Error('mine')
      }
      expect(() => scope(() => runProgram(program, inputs, failing))).toThrow('mine')
      expect(count()).toBe(before)
      tf.dispose(inputs)
    })
    onEach(() => fc.assert(law, { numRuns: 50 }))
  })

  it('laws 75 and 78: frees everything if the result is a Left', () => {
    const before = count()
    const result = scope((): E.Either<string, tf.Tensor> => {
      tf.neg(tf.tensor1d([1, 2]))
      return E.left('no')
    })
    expect(result).toEqual(E.left('no'))
    expect(count()).toBe(before)
    const right = scope(() => E.right(tf.neg(tf.tensor1d([1, 2]))))
    expect(count()).toBe(before + 1)
    tf.dispose(tensorsOf(right) as tf.Tensor[]) // a readonly list
  })

  it('law 76: frees nothing of its result and nothing that was there before', () => {
    const law = fc.property(programs(), chosen, (program, keep) => {
      const inputs = inputsOf(program)
      const expected = runProgram(program, inputs)
      const result = scope(() => runProgram(program, inputs).filter((_, i) => keep[i]))
      expect([...inputs, ...result].some((t) => t.isDisposed)).toBe(false)
      expect(result.map(valuesOf)).toEqual(expected.filter((_, i) => keep[i]).map(valuesOf))
      tf.dispose([expected, result, inputs])
    })
    onEach(() => fc.assert(law, { numRuns: 50 }))
  })

  it('law 79: a program that returns nothing leaves nothing', () => {
    const law = fc.property(programs(), (program) => {
      const before = tf.memory()
      scope(() => {
        runProgram(program, inputsOf(program))
      })
      expect(tf.memory()).toMatchObject({ numTensors: before.numTensors, numDataBuffers: before.numDataBuffers })
    })
    onEach(() => fc.assert(law, { numRuns: 50 }))
  })

  it('nests: the outer scope frees what the inner one returned, unless it returns it too', () => {
    onEach(() => {
      const before = count()
      const kept = scope(() => {
        const [a, b] = scope(() => [tf.tensor1d([1]), tf.tensor1d([2]), tf.tensor1d([3])].slice(0, 2)) as [
          tf.Tensor,
          tf.Tensor,
        ] // two of three
        return tf.add(a, b)
      })
      expect(count()).toBe(before + 1)
      expect(valuesOf(kept)).toEqual([3])
      kept.dispose()
    })
  })

  it('refuses a promise, and frees what was made before the first await', async () => {
    const before = count()
    let promise: Promise<tf.Tensor> | undefined
    const asynchronous = (): never => {
      promise = (async () => tf.tensor1d([1]))()
      return promise as never // an argument that only untyped callers pass
    }
    expect(() => scope(asynchronous)).toThrow(
      new TypeError('scope: the function returned a promise; scopes are synchronous'),
    )
    await promise
    expect(count()).toBe(before)
  })

  it('returns values without tensors as they are', () => {
    expect(scope(() => 3)).toBe(3)
    expect(scope(() => undefined)).toBeUndefined()
    const record = { a: [1, 'x'] }
    expect(scope(() => record)).toBe(record)
  })
})

describe('own', () => {
  it('law 77: a tensor lives until its last owner releases it, in any order and with any sharing', () => {
    const size = 5
    const values = fc.array(fc.subarray([...Array(size).keys()]), { minLength: 1, maxLength: 6 })
    const law = fc.property(
      values.chain((lists) =>
        fc.tuple(fc.constant(lists), fc.shuffledSubarray([...lists.keys()], { minLength: lists.length })),
      ),
      ([lists, order]) => {
        const before = tf.memory()
        const owners: Owned<unknown>[] = []
        const tensors = scope(() => {
          const made = Array.from({ length: size }, (_, i) => tf.tensor1d([i]))
          for (const list of lists) owners.push(own(wrap(list.map((i) => made[i]!))))
          return { [TENSORS]: () => [], made } // the scope sees none of them
        }).made
        expect(ownedCount()).toBe(lists.length)
        const held = new Map(tensors.map((_, i) => [i, lists.filter((list) => list.includes(i)).length]))
        const expectModel = (): void => {
          expect(tensors.map((t) => t.isDisposed)).toEqual(tensors.map((_, i) => held.get(i) === 0))
        }
        expectModel()
        for (const index of order) {
          owners[index]!.release()
          for (const i of lists[index]!) held.set(i, held.get(i)! - 1)
          expectModel()
        }
        expect(ownedCount()).toBe(0)
        expect(tf.memory()).toMatchObject({ numTensors: before.numTensors, numDataBuffers: before.numDataBuffers })
      },
    )
    onEach(() => fc.assert(law, { numRuns: 50 }))
  })

  it('law 77: keeps the same tensors, across scopes and an await', async () => {
    const owned = scope(() => own({ x: tf.tensor1d([1, 2]) }))
    await Promise.resolve()
    scope(() => tf.neg(owned.value.x).dataSync())
    expect(valuesOf(owned.value.x)).toEqual([1, 2])
    owned.release()
  })

  it('law 77: reports a second release, and frees nothing twice', () => {
    const x = tf.tensor1d([1])
    const [first, second] = [own(x), own([x])]
    first.release()
    expect(() => first.release()).toThrow('own: released twice')
    expect(x.isDisposed).toBe(false)
    expect(ownedCount()).toBe(1)
    second.release()
    expect(x.isDisposed).toBe(true)
  })

  it('refuses to give its value after release', () => {
    const owned = own(tf.tensor1d([1]))
    owned.release()
    expect(() => owned.value).toThrow('used after its release')
  })

  it('releases at the end of a using declaration, also when the block throws', () => {
    const x = tf.tensor1d([1])
    const y = tf.tensor1d([2])
    {
      using owned = own(x)
      expect(owned.value.isDisposed).toBe(false)
    }
    expect(x.isDisposed).toBe(true)
    expect(() => {
      using owned = own(y)
      throw new Error(`mine ${owned.value.shape.join()}`)
    }).toThrow('mine 1')
    expect(y.isDisposed).toBe(true)
  })

  it('refuses a value with a tensor that was freed, and then owns nothing of it', () => {
    const [alive, dead] = [tf.tensor1d([1]), tf.tensor1d([2, 3])]
    dead.dispose()
    expect(() => own([alive, dead])).toThrow('own: a tensor of shape [2] has been freed already')
    expect(ownedCount()).toBe(0)
    const owned = own(alive)
    owned.release()
    expect(alive.isDisposed).toBe(true)
  })

  it('of a value without tensors is counted too', () => {
    const owned = own({ n: 1 })
    expect(ownedCount()).toBe(1)
    expect(owned.value).toEqual({ n: 1 })
    owned.release()
  })
})

describe('discard', () => {
  it('frees exactly what is in the first value, not in the second, and owned by nobody', () => {
    const subset = fc.subarray([0, 1, 2, 3, 4])
    const law = fc.property(subset, subset, subset, (old, kept, owned) => {
      const tensors = Array.from({ length: 5 }, (_, i) => tf.tensor1d([i]))
      const pick = (indices: readonly number[]): tf.Tensor[] => indices.map((i) => tensors[i]!)
      const owner = own(pick(owned))
      discard(wrap(pick(old)), wrap(pick(kept)))
      expect(tensors.map((t) => t.isDisposed)).toEqual(
        tensors.map((_, i) => old.includes(i) && !kept.includes(i) && !owned.includes(i)),
      )
      owner.release()
      tf.dispose(tensors)
    })
    onEach(() => fc.assert(law))
  })

  it('takes a value that was freed before for nothing to do', () => {
    const x = tf.tensor1d([1])
    discard(x)
    expect(() => discard(x)).not.toThrow()
    expect(x.isDisposed).toBe(true)
  })
})

describe('tensorsOf', () => {
  const withTensors = (n: number, f: (...tensors: tf.Tensor[]) => void): void => {
    const tensors = Array.from({ length: n }, (_, i) => tf.scalar(i))
    f(...tensors)
    tf.dispose(tensors)
  }

  it('finds tensors in records, arrays, maps, sets and values with TENSORS, each once, in order', () => {
    withTensors(6, (a, b, c, d, e, f) => {
      const held = { [TENSORS]: () => new Set([{ deep: [e] }, a]), hidden: f }
      const value = {
        list: [a, [b, null, undefined]],
        map: new Map([['x', { c }]]),
        set: new Set([d, a]),
        held,
        again: b,
      }
      expect(tensorsOf(value)).toEqual([a, b, c, d, e])
    })
  })

  it('takes a tensor alone, records without a prototype, and cycles', () => {
    withTensors(1, (a) => {
      const cycle: Record<string, unknown> = { a }
      cycle.self = cycle
      expect(tensorsOf(a)).toEqual([a])
      expect(tensorsOf(Object.assign(Object.create(null), { a }))).toEqual([a])
      expect(tensorsOf(cycle)).toEqual([a])
    })
  })

  it('looks into nothing else: class instances, functions, strings, dates, promises', () => {
    withTensors(1, (a) => {
      class Box {
        readonly inside = a
      }
      expect(tensorsOf([new Box(), () => a, 'text', 3, new Date(0), Promise.resolve(a), Symbol.iterator])).toEqual([])
    })
  })

  it('does not walk the elements of typed arrays', () => {
    const array = new Float32Array(2)
    const touched: string[] = []
    const watched = new Proxy(array, {
      get: (target, key) => {
        touched.push(String(key))
        return Reflect.get(target, key)
      },
    })
    expect(tensorsOf({ array, watched, big: new Float32Array(50_000_000) })).toEqual([])
    expect(touched.filter((key) => /^\d+$/.test(key))).toEqual([])
  })
})

describe('liveTensors', () => {
  it('counts tensors and their bytes', () => {
    const before = liveTensors()
    const tensors = [tf.zeros([3, 2]), tf.zeros([5], 'bool')]
    expect(liveTensors()).toEqual({ count: before.count + 2, bytes: before.bytes + 24 + 5 })
    tf.dispose(tensors)
    expect(liveTensors()).toEqual(before)
  })
})
