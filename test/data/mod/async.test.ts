/** Modules that wait. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type Failure, orThrow } from '../../../src/core/failure.js'
import { branchOn } from '../../../src/data/mod/branch.js'
import { parallel, seq } from '../../../src/data/mod/combine.js'
import { asyncMod, mod } from '../../../src/data/mod/mod.js'
import { remapOut } from '../../../src/data/mod/remap.js'
import { runMod, runModAsync } from '../../../src/data/mod/run.js'
import { pick, subgraph } from '../../../src/data/mod/subgraph.js'
import { type Meta, meta } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { discard, own } from '../../../src/engine/scope.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { leftOf } from '../../kit/mods.js'

useEngine()

type X = { readonly x: tf.Tensor }

const start = mod({ name: 'start', inKeys: [], outKeys: ['x'], run: () => E.right({ x: tf.add(tf.ones([2]), 1) }) })
const later = asyncMod({
  name: 'later',
  inKeys: ['x'],
  outKeys: ['y'],
  run: (td: TensorDict<X>) => async () => {
    await Promise.resolve()
    return E.right({ y: tf.mul(get(td, 'x'), 3) })
  },
})
const failing = (reason: string) =>
  asyncMod({
    name: `failing ${reason}`,
    inKeys: ['x'],
    outKeys: ['z'],
    run: (_: TensorDict<X>) => async (): Promise<E.Either<Failure, { readonly z: Meta<number> }>> => {
      await Promise.resolve()
      return E.left({ _tag: 'Mine', reason })
    },
  })
const empty = TensorDict({}, [2])

describe('runModAsync', () => {
  it('runs modules that wait and modules that do not; the result belongs to the caller', async () => {
    const result = orThrow(await runModAsync(seq(start, later), empty)())
    expect([valuesOf(get(result, 'x')), valuesOf(get(result, 'y'))]).toEqual([
      [2, 2],
      [6, 6],
    ])
    discard(result)
  })

  it('gives what runMod gives for modules that do not wait', async () => {
    const [a, b] = [orThrow(await runModAsync(start, empty)()), orThrow(runMod(start, empty))]
    expect(valuesOf(get(a, 'x'))).toEqual(valuesOf(get(b, 'x')))
    discard([a, b])
  })

  it('frees what is not in the result, and keeps what somebody owns', async () => {
    const held = own(tf.ones([2]))
    const keeps = asyncMod({
      name: 'keeps',
      inKeys: [],
      outKeys: ['x', 'w'],
      run: () => async () => E.right({ x: held.value, w: tf.zeros([2]) }),
    })
    const result = orThrow(await runModAsync(pick(seq(keeps, later), 'y'), empty)())
    expect([...result.entries.keys()]).toEqual(['y'])
    expect(valuesOf(held.value)).toEqual([1, 1])
    discard(result)
    held.release()
  })

  it('frees everything when a module fails or rejects, and the inputs stay', async () => {
    const td = TensorDict({ x: tf.ones([2]) }, [2])
    expect(leftOf(await runModAsync(seq(later, failing('no')), td)())).toMatchObject({
      module: 'failing no',
      cause: { _tag: 'Mine', reason: 'no' },
    })
    const rejects = asyncMod({
      name: 'rejects',
      inKeys: [],
      outKeys: [],
      run: () => (): Promise<E.Either<never, Record<never, never>>> => Promise.reject(new Error('mine')),
    })
    await expect(runModAsync(seq(later, rejects), td)()).rejects.toThrow('mine')
    expect(valuesOf(get(td, 'x'))).toEqual([1, 1])
    discard(td)
  })

  it('says all missing inputs before anything runs', async () => {
    const wrong = runModAsync(later as never, empty as never)
    expect(leftOf(await wrong()).reason).toBe('module "later": inputs are missing: "x"')
  })

  it('lets modules side by side wait at the same time, and reports the first failure in their order', async () => {
    const log: string[] = []
    let open: () => void = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const first = asyncMod({
      name: 'first',
      inKeys: [],
      outKeys: ['a'],
      run: () => async () => {
        await gate // opened by the second
        log.push('first')
        return E.right({ a: tf.ones([2]) })
      },
    })
    const second = asyncMod({
      name: 'second',
      inKeys: [],
      outKeys: ['b'],
      run: () => async () => {
        log.push('second')
        open()
        return E.right({ b: tf.zeros([2]) })
      },
    })
    const result = orThrow(await runModAsync(parallel(first, second), empty)())
    expect(log).toEqual(['second', 'first'])
    discard(result)
    const both = parallel(failing('slow'), remapOut(failing('fast'), [{ inner: 'z', outer: 'q' }]), second)
    const td = TensorDict({ x: meta(1) as unknown as tf.Tensor }, [2]) // nobody looks at it
    expect(leftOf(await runModAsync(both, td)()).module).toBe('failing slow')
  })

  it('waits for the others if one of them throws, so that what they make is freed', async () => {
    const throws = mod({
      name: 'throws',
      inKeys: [],
      outKeys: ['z'],
      run: (): E.Either<never, { readonly z: Meta }> => {
        throw new Error('mine')
      },
    })
    const td = TensorDict({ x: tf.ones([2]) }, [2])
    await expect(runModAsync(parallel(later, throws), td)()).rejects.toThrow('mine')
    discard(td)
  })

  it('branches and subgraphs wait as well', async () => {
    const either = branchOn({ name: 'either', keyAt: 'mode', cases: { later, again: later } })
    const td = TensorDict({ mode: meta('again' as const) }, [2])
    const result = orThrow(await runModAsync(subgraph(seq(start, either), 'y'), td)())
    expect([...result.entries.keys()]).toEqual(['mode', 'y'])
    discard(result)
  })
})

it('runMod refuses a module that waits, also where the types were bypassed', () => {
  const td = TensorDict({ x: tf.ones([2]) }, [2])
  const quiet = asyncMod({
    name: 'quiet',
    inKeys: ['x'],
    outKeys: [],
    run: (_: TensorDict<X>) => async () => E.right({}),
  })
  expect(() => runMod(quiet as never, td)).toThrow('runMod: module "quiet" waits; runModAsync runs it')
  discard(td)
})
