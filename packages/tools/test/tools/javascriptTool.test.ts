import { keyFromSeed } from '@tandem-rl/base'
import { afterAll, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { type JavaScriptTool, javascriptTool } from '../../src/tools/javascriptTool.js'

const LIMITS = { wallMs: 120_000 }
const tool = javascriptTool({ limits: LIMITS })
const short = javascriptTool({ limits: { wallMs: 300, memoryBytes: 16 * 2 ** 20 } })

afterAll(async () => {
  await Promise.all([tool.close(), short.close()])
  expect([tool.idle(), short.idle()]).toEqual([0, 0])
})

const call = (made: JavaScriptTool, code: string, state: unknown = made.initial, seed = 0) =>
  rightOf(made.call({ code }, { state, key: keyFromSeed(seed), signal: new AbortController().signal }))

const said = async (code: string, made = tool, seed = 0): Promise<string> =>
  String((await call(made, code, made.initial, seed)).content)

it('returns the log, and the value of the last expression', async () => {
  expect(await said('console.log("a", { b: [1] }, undefined, new Map([[1, 2]])); 6 * 7')).toBe(
    'a {"b":[1]} undefined Map [[1,2]]\n42',
  )
  expect(await said('let x = 1')).toBe('[no output]')
  expect(await said('null')).toBe('null')
  expect(await said('10n ** 20n')).toBe('100000000000000000000')
  expect(await said('"\\ud83d\\ude00"')).toBe('😀')
})

it('returns an error with its place', async () => {
  expect(await said('console.log(1)\nnull.x')).toMatch(/^1\nTypeError: .*\n {4}at <eval> \(cell\.js:2/)
  expect(await said('throw { a: 1 }')).toBe('thrown: {"a":1}')
  expect(await said('let =')).toContain('SyntaxError')
  expect(await said('Promise.reject(new RangeError("far"))')).toContain('RangeError: far')
  expect(await said('throw new Proxy({}, { get() { throw 1 } })')).toContain('cannot be shown')
})

it('waits for promises', async () => {
  expect(await said('(async () => { await null; console.log("later"); return 5 })()')).toBe('later\n5')
  expect(await said('new Promise(() => {})')).toBe('[a promise that nothing resolves]')
})

it('gives equal results for equal keys: random numbers are of the key, and there is no clock', async () => {
  const code = '[Math.random(), typeof Date, typeof performance, typeof setTimeout, typeof WeakRef]'
  const first = await said(code)
  expect(await said(code)).toBe(first)
  expect(await said(code, tool, 1)).not.toBe(first)
  expect(first).toMatch(/^\[0\.\d+,"undefined","undefined","undefined","undefined"\]$/)
})

it('has nothing of this process', async () => {
  const names = [
    'process',
    'require',
    'fetch',
    'Buffer',
    'global',
    'print',
    'seed',
    'WebAssembly',
    'Worker',
    'os',
    'std',
  ]
  expect(await said(`[${names.map((name) => `typeof ${name}`).join()}].join()`)).toBe(
    names.map(() => 'undefined').join(),
  )
  expect(await said('this.constructor.constructor("return typeof process")()')).toBe('undefined')
  expect(await said('import("fs")')).toContain('could not load module')
  expect(await said('try { console.log.constructor("return process")() } catch (e) { e.message }')).toContain('process')
})

it.each([
  ['a loop', 'while (true) {}', /ran longer than 0.3 s/],
  ['a loop of promises', 'const f = () => Promise.resolve().then(f); f()', /ran longer/],
  ['a regular expression', '/(a+)+$/.test("a".repeat(60) + "b")', /ran longer/],
  ['an error that is caught again and again', 'for (;;) try { while (true) {} } catch (e) { e.message }', /ran longer/],
  ['memory', 'const a = []; while (true) a.push("x".repeat(1e5) + a.length)', /out of memory|ran longer/],
  ['a large array', 'new Array(2 ** 32 - 1).fill(0)', /out of memory|ran longer/],
  ['a long text', 'let s = "x"; while (true) s += s', /too long|out of memory|ran longer/],
  ['a recursion', 'const f = () => f() + 1; f()', /stack|too deep/],
  ['deep nesting', 'JSON.parse("[".repeat(1e6))', /stack|too deep/],
  ['deep source', `${'['.repeat(40_000)}`, /stack|too deep|SyntaxError/],
  ['output', 'for (;;) console.log("x".repeat(1000))', /\[\d+ more characters of output\]\n\[stopped: it ran longer/],
])('%s without end is stopped and told, and the next call works', async (_, code, told) => {
  expect(await said(code, short)).toMatch(told)
  expect(await said('6 * 7', short)).toBe('42')
})

it('remembers earlier calls where it is asked to, and not the one that had to be stopped', async () => {
  const session = javascriptTool({ memory: 'session', limits: { wallMs: 1000 } })
  const first = await call(session, 'let x = [1]; const r = Math.random()')
  const second = await call(session, 'x.push(2); console.log(x)', first.state)
  const stopped = await call(session, 'while (true) {}', second.state)
  const third = await call(session, 'x', stopped.state)
  const fork = await call(session, 'x', first.state)
  const again = [await call(session, 'r', first.state, 1), await call(session, 'r', first.state, 2)]
  await session.close()
  expect([second.content, third.content, fork.content]).toEqual(['[1,2]', '[1,2]', '[1]'])
  expect(again[0]!.content).toBe(again[1]!.content) // an earlier call keeps its random numbers
  expect(stopped.state).toEqual(second.state)
})

it('ends a call that nobody waits for, and keeps no thread of it', async () => {
  const abort = new AbortController()
  const lone = javascriptTool({ limits: LIMITS })
  const asked = lone.call({ code: 'while (true) {}' }, { state: null, key: keyFromSeed(0), signal: abort.signal })()
  abort.abort()
  await asked
  expect(lone.idle()).toBe(0)
})

it('refuses invalid arguments', async () => {
  const context = { state: null, key: keyFromSeed(0), signal: new AbortController().signal }
  expect(await leftOf(tool.call({ source: '1' }, context))).toMatchObject({ kind: 'arguments' })
})
