/** What modules do, by examples. The laws are in `mod.laws.test.ts`. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { describe as describeFailure, type Failure, orThrow } from '../../../src/core/failure.js'
import { branch, branchOn } from '../../../src/data/mod/branch.js'
import { identityMod, parallel, seq } from '../../../src/data/mod/combine.js'
import { mod } from '../../../src/data/mod/mod.js'
import { remapIn, remapOut } from '../../../src/data/mod/remap.js'
import { runMod } from '../../../src/data/mod/run.js'
import { data, type Meta, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { find, get, isTensorDict, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { discard, scope } from '../../../src/engine/scope.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { leftOf, numbers, problemsOf, sum, untyped } from '../../kit/mods.js'

useEngine()

describe('runMod', () => {
  it('adds what the module writes; everything else stays the same object', () => {
    const td = TensorDict({ text: data(['a b', 'c']), next: { reward: tf.tensor1d([1, 2]), done: data([1, 2]) } }, [2])
    const double = mod({
      name: 'double',
      inKeys: [['next', 'reward']],
      outKeys: [['next', 'double'], 'words'],
      run: (inputs: TensorDict<{ readonly next: TensorDict<{ readonly reward: tf.Tensor }> }>) =>
        E.right({ next: { double: tf.mul(get(inputs, 'next', 'reward'), 2) }, words: data([2, 1]) }),
    })
    const result = orThrow(runMod(double, td))
    expect(valuesOf(get(result, 'next', 'double'))).toEqual([2, 4])
    expect(get(result, 'words').items.toArray()).toEqual([2, 1])
    expect(get(result, 'text')).toBe(get(td, 'text'))
    expect(get(result, 'next', 'reward')).toBe(get(td, 'next', 'reward'))
    expect([...td.entries.keys()]).toEqual(['text', 'next'])
    discard(result)
  })

  it('shows a module the entries that it reads and no others', () => {
    let seen: TensorDict | undefined
    const spy = mod({
      name: 'spy',
      inKeys: [['n', 'a'], 'm'],
      outKeys: [],
      run: (td: TensorDict<{ readonly n: TensorDict<{ readonly a: Meta }>; readonly m: Meta }>) => {
        seen = td
        return E.right({})
      },
    })
    const td = TensorDict({ n: { a: meta(1), b: meta(2) }, m: meta(3), other: meta(4) }, [3])
    expect(orThrow(runMod(spy, td))).toBe(td)
    expect([...seen!.entries.keys()]).toEqual(['n', 'm'])
    expect(find(seen!, ['n', 'b'])).toBeUndefined()
    expect(find(seen!, ['n', 'a'])).toBe(find(td, ['n', 'a']))
    expect(seen!.batchShape).toEqual([3])
  })

  it('keeps the batch shape of nodes on the way, and checks what is written against it', () => {
    const inner = TensorDict({ x: tf.zeros([2, 3]) }, [2, 3])
    const td = TensorDict({ n: inner }, [2])
    const write = (shape: [number, number]) =>
      mod({ name: 'write', inKeys: [], outKeys: [['n', 'y']], run: () => E.right({ n: { y: tf.ones(shape) } }) })
    const result = orThrow(runMod(write([2, 3]), td))
    const node = find(result, ['n'])
    expect(isTensorDict(node) && node.batchShape).toEqual([2, 3])
    expect(leftOf(runMod(write([2, 4]), td)).problems).toEqual([
      { path: ['n', 'y'], reason: 'tensor of shape [2, 4] does not begin with the batch shape [2, 3]' },
    ])
    discard(result)
  })

  it('says all missing inputs before anything runs', () => {
    const log: string[] = []
    const all = seq(
      sum('first', { inKeys: ['a', 'b'], outKeys: ['c'] }, log),
      sum('second', { inKeys: ['c', 'd'], outKeys: ['e'] }, log),
    )
    const failure = leftOf(runMod(all, numbers({ b: 1 })))
    expect(failure).toMatchObject({
      _tag: 'ModFailure',
      module: 'first > second',
      problems: [{ path: ['a'] }, { path: ['d'] }],
    })
    expect(describeFailure(failure)).toBe('module "first > second": inputs are missing: "a"; "d"')
    expect(log).toEqual([])
  })

  it('says everything that is wrong with the outputs, with the name of the module', () => {
    const wrong = mod({
      name: 'wrong',
      inKeys: [],
      outKeys: ['a', 'b', 'c', 'd'] as never, // what a caller without types may say
      run: () => E.right({ a: data([1]), b: { deeper: meta(1) }, d: 5 as never, extra: ragged('int32', []) }),
    })
    const failure = leftOf(untyped.run(wrong, TensorDict({}, [2])))
    expect(failure.problems).toEqual([
      { path: ['b'], reason: 'a node, but outKeys name leaves' },
      { path: ['c'], reason: 'not returned' },
      { path: ['b', 'deeper'], reason: 'returned, but not one of the outKeys' },
      { path: ['extra'], reason: 'returned, but not one of the outKeys' },
      { path: ['a'], reason: '1 values for batch shape [2]' },
      { path: ['d'], reason: 'expected a tensor, ragged rows, data, meta or a record, got number' },
    ])
    expect(failure.reason).toMatch(/^module "wrong": its outputs are not what it promised: "b": a node, but/)
  })

  it('refuses to write below a leaf, and a leaf over a node', () => {
    const write = mod({ name: 'write', inKeys: [], outKeys: [['n', 'x']], run: () => E.right({ n: { x: meta(1) } }) })
    expect(leftOf(runMod(write, numbers({ n: 1 }))).reason).toContain('there is a leaf at "n"')
    const over = mod({ name: 'over', inKeys: [], outKeys: ['n'], run: () => E.right({ n: meta(1) }) })
    expect(leftOf(runMod(over, TensorDict({ n: { x: meta(1) } }, []))).reason).toContain('there is a node in its place')
  })

  it('gives the failure of a module on, and frees what was made until then', () => {
    const make = mod({ name: 'make', inKeys: [], outKeys: ['x'], run: () => E.right({ x: tf.ones([3]) }) })
    const fail = mod({
      name: 'fail',
      inKeys: ['x'],
      outKeys: [],
      run: (td: TensorDict<{ readonly x: tf.Tensor }>): E.Either<Failure, Record<never, never>> => {
        tf.neg(get(td, 'x'))
        return E.left({ _tag: 'Mine', reason: 'not today' })
      },
    })
    expect(leftOf(runMod(seq(make, fail), TensorDict({}, [3])))).toEqual({
      _tag: 'ModFailure',
      module: 'fail',
      reason: 'module "fail": not today',
      problems: [],
      cause: { _tag: 'Mine', reason: 'not today' },
    })
  })

  it('frees everything if a module throws, and gives the error on', () => {
    const make = mod({ name: 'make', inKeys: [], outKeys: ['x'], run: () => E.right({ x: tf.ones([3]) }) })
    const broken = mod({
      name: 'broken',
      inKeys: [],
      outKeys: [],
      run: (): E.Either<never, Record<never, never>> => {
        tf.ones([2])
        throw new RangeError('mine')
      },
    })
    expect(() => runMod(seq(make, broken), TensorDict({}, [3]))).toThrow(new RangeError('mine'))
  })

  it('frees outputs that a later module overwrites', () => {
    const make = (value: number) =>
      mod({ name: `make ${value}`, inKeys: [], outKeys: ['x'], run: () => E.right({ x: tf.fill([2], value) }) })
    const result = orThrow(runMod(seq(make(1), make(2)), TensorDict({}, [2])))
    expect(valuesOf(get(result, 'x'))).toEqual([2, 2])
    discard(result)
  })
})

describe('mod', () => {
  it('refuses keys that are named twice, one inside of another, and empty paths', () => {
    const keys = (...outKeys: unknown[]) =>
      mod({ name: 'm', inKeys: [], outKeys: outKeys as never, run: () => E.right({}) })
    expect(problemsOf(() => keys('a', ['a']))).toEqual(['a: named twice, or inside of another key'])
    expect(problemsOf(() => keys(['n', 'a'], 'n'))).toEqual(['n: named twice, or inside of another key'])
    expect(problemsOf(() => keys([]))).toEqual([': a path has at least one key'])
  })

  it('takes a TensorDict as output', () => {
    const again = mod({
      name: 'again',
      inKeys: ['x'],
      outKeys: ['x'],
      run: (td: TensorDict<{ readonly x: Meta<number> }>) => E.right(td),
    })
    const td = TensorDict({ x: meta(1) }, [])
    expect(orThrow(runMod(again, td))).toBe(td)
  })
})

describe('seq and parallel', () => {
  it('seq shows each module what the earlier ones have written', () => {
    const chain = seq(
      sum('b', { inKeys: ['a'], outKeys: ['b'] }),
      sum('c', { inKeys: ['a', 'b'], outKeys: ['c'] }),
      sum('b again', { inKeys: ['c'], outKeys: ['b'] }),
    )
    expect(chain.inKeys).toEqual([['a']])
    expect(chain.outKeys).toEqual([['b'], ['c']])
    const result = orThrow(runMod(chain, numbers({ a: 1 })))
    expect(result.entries.toJS()).toMatchObject({ b: { value: 5 }, c: { value: 4 } })
  })

  it('parallel shows no module what another has written', () => {
    const both = parallel(sum('b', { inKeys: ['a'], outKeys: ['b'] }), sum('c', { inKeys: ['a', 'b'], outKeys: ['c'] }))
    expect(both.inKeys).toEqual([['a'], ['b']])
    const result = orThrow(runMod(both, numbers({ a: 1, b: 10 })))
    expect(result.entries.toJS()).toMatchObject({ b: { value: 2 }, c: { value: 12 } })
  })

  it('refuse entries that cannot be in one tree', () => {
    const leaf = mod({ name: 'leaf', inKeys: [], outKeys: ['n'], run: () => E.right({ n: meta(1) }) })
    const node = mod({ name: 'node', inKeys: [], outKeys: [['n', 'x']], run: () => E.right({ n: { x: meta(1) } }) })
    const reads = mod({
      name: 'reads',
      inKeys: [['n', 'x']],
      outKeys: [],
      run: (_: TensorDict<{ readonly n: TensorDict<{ readonly x: Meta }> }>) => E.right({}),
    })
    const place = 'n.x: "node" uses an entry below "n", where "leaf" writes a leaf'
    expect(problemsOf(() => untyped.seq(leaf, node))).toEqual([place])
    expect(problemsOf(() => untyped.seq(node, leaf))).toEqual([place])
    expect(problemsOf(() => untyped.seq(leaf, reads))).toEqual([place.replace('"node"', '"reads"')])
    expect(untyped.seq(reads, leaf).inKeys).toEqual([['n', 'x']])
    expect(problemsOf(() => untyped.parallel(leaf, node))).toEqual(['n.x: "leaf" and "node" both write it'])
    expect(problemsOf(() => untyped.parallel(leaf, leaf))).toEqual(['n: "leaf" and "leaf" both write it'])
  })

  it('identityMod gives the same object', () => {
    const td = numbers({ a: 1 })
    expect(orThrow(runMod(identityMod, td))).toBe(td)
    expect(identityMod).toMatchObject({ name: 'identity', inKeys: [], outKeys: [] })
    const only = sum('only', { inKeys: ['a'], outKeys: ['b'] })
    expect(seq(identityMod, only)).toBe(only)
  })
})

describe('branch', () => {
  const log: string[] = []
  const cases = {
    plus: sum('plus', { inKeys: ['a', 'b'], outKeys: ['x'] }, log),
    one: sum('one', { inKeys: [], outKeys: ['x'] }, log),
  }

  it('runs the case that the function names, and only that', () => {
    const byA = branch({
      name: 'by a',
      inKeys: ['a'],
      choose: (td: TensorDict<{ readonly a: Meta<number> }>) => (get(td, 'a').value > 0 ? 'plus' : 'one'),
      cases,
    })
    expect(byA.inKeys).toEqual([['a'], ['b']])
    log.length = 0
    const result = [1, -1].map((a) => orThrow(runMod(byA, TensorDict({ a: meta(a), b: meta(5) }, []))))
    expect(result.map((td) => get(td, 'x').value)).toEqual([7, 1])
    expect(log).toEqual(['plus', 'one'])
  })

  it('runs the case that a meta entry names, and fails for a name that is none', () => {
    const byMode = branchOn({ name: 'by mode', keyAt: 'mode', cases })
    const at = (mode: unknown) => untyped.run(byMode, TensorDict({ mode: mode as Meta, a: meta(1), b: meta(1) }, []))
    expect(orThrow(at(meta('one'))).entries.get('x')).toEqual(meta(1))
    expect(leftOf(at(meta('none'))).reason).toBe('module "by mode": "none" is none of the cases "plus", "one"')
    expect(leftOf(at(meta('toString'))).reason).toContain('"toString" is none of the cases')
    expect(leftOf(at(ragged('int32', [[1]]))).reason).toContain('no meta at')
  })

  it('refuses cases that write different entries', () => {
    const other = sum('other', { inKeys: [], outKeys: ['y'] })
    expect(problemsOf(() => branchOn({ name: 'unequal', keyAt: 'mode', cases: { ...cases, other } }))).toEqual([
      'other: writes "y", but "plus" writes "x"',
    ])
    expect(problemsOf(() => branchOn({ name: 'none', keyAt: 'mode', cases: {} }))).toEqual([': there are no cases'])
  })
})

describe('remapIn and remapOut', () => {
  const add = mod({
    name: 'add',
    inKeys: [['n', 'a'], ['n', 'b'], 'c'],
    outKeys: [
      ['m', 'x'],
      ['m', 'y'],
    ],
    run: (
      td: TensorDict<{
        readonly n: TensorDict<{ readonly a: Meta<number>; readonly b: Meta<number> }>
        readonly c: Meta<number>
      }>,
    ) => {
      const [a, b, c] = [get(td, 'n', 'a').value, get(td, 'n', 'b').value, get(td, 'c').value]
      return E.right({ m: { x: meta(a + b), y: meta(a * c) } })
    },
  })

  it('read and write elsewhere, leaf by leaf or node by node', () => {
    const leafwise = remapOut(remapIn(add, [{ inner: ['n', 'b'], outer: 'b' }]), [
      { inner: ['m', 'y'], outer: ['z', 'y'] },
    ])
    expect(leafwise.inKeys).toEqual([['n', 'a'], ['b'], ['c']])
    expect(leafwise.outKeys).toEqual([
      ['m', 'x'],
      ['z', 'y'],
    ])
    const first = orThrow(runMod(leafwise, TensorDict({ n: { a: meta(2) }, b: meta(3), c: meta(5) }, [])))
    expect([get(first, 'm', 'x').value, get(first, 'z', 'y').value]).toEqual([5, 10])
    expect(find(first, ['n', 'b'])).toBeUndefined()

    const nodewise = remapOut(remapIn(add, [{ inner: 'n', outer: ['deep', 'er'] }]), [
      { inner: 'm', outer: ['deep', 'out'] },
    ])
    const second = orThrow(runMod(nodewise, TensorDict({ deep: { er: { a: meta(2), b: meta(3) } }, c: meta(1) }, [])))
    expect([get(second, 'deep', 'out', 'x').value, get(second, 'deep', 'out', 'y').value]).toEqual([5, 2])
  })

  it('exchange two inputs, and read one entry twice', () => {
    const difference = mod({
      name: 'difference',
      inKeys: ['a', 'b'],
      outKeys: ['x'],
      run: (td: TensorDict<{ readonly a: Meta<number>; readonly b: Meta<number> }>) =>
        E.right({ x: meta(get(td, 'a').value - get(td, 'b').value) }),
    })
    const td = TensorDict({ a: meta(5), b: meta(3) }, [])
    const exchanged = remapIn(difference, [
      { inner: 'a', outer: 'b' },
      { inner: 'b', outer: 'a' },
    ])
    expect(get(orThrow(runMod(exchanged, td)), 'x').value).toBe(-2)
    const same = remapIn(difference, [{ inner: 'a', outer: 'b' }])
    expect(same.inKeys).toEqual([['b']])
    expect(get(orThrow(runMod(same, td)), 'x').value).toBe(0)
  })

  it('refuse what is not there, what is moved twice, and two outputs in one place', () => {
    expect(problemsOf(() => remapIn(add, [{ inner: 'd' as 'c', outer: 'x' }]))).toEqual([
      'd: the module has no such entry',
    ])
    expect(
      problemsOf(() =>
        remapIn(add, [
          { inner: 'n', outer: 'x' },
          { inner: ['n', 'a'], outer: 'y' },
        ]),
      ),
    ).toEqual(['n.a: moved twice'])
    expect(problemsOf(() => remapOut(add, [{ inner: ['m', 'x'], outer: ['m', 'y'] }]))).toEqual([
      'm.y: two outputs would be here, or one inside of the other',
    ])
  })
})

it('results of modules belong to the enclosing scope', () => {
  const make = mod({ name: 'make', inKeys: [], outKeys: ['x'], run: () => E.right({ x: tf.ones([2]) }) })
  scope(() => {
    orThrow(runMod(make, TensorDict({}, [2])))
  })
})
