import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, type RewardSample, rewardLaws } from '@tandem-rl/testing'
import { codeFences, History, message, type Task } from '@tandem-rl/text'
import fc from 'fast-check'
import { afterAll, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { describeWithPython, markedSandbox, processesWith } from '../../../../test/kit/sandboxes.js'
import { type CodeTest, codeTests } from '../../src/rewards/codeTests.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'

const mark = `code-tests-${process.pid}`
const sandbox = markedSandbox(mark)
const task: Task = { id: 'a', query: 'Write it.', answer: '' }
const signal = new AbortController().signal

const LIMITS = { wallMs: 120_000, cpuSeconds: 60 }

const fenced = (code: string): string => `Here it is:\n\`\`\`python\n${code}\n\`\`\`\n`

const answered = (reply: string) => ({
  task,
  history: History([message('user', 'Write it.'), message('assistant', reply)]),
})

const scoreOf = (reply: string, tests: readonly CodeTest[], limits = {}) =>
  rightOf(
    codeTests({ tests: () => tests, sandbox, limits: { ...LIMITS, ...limits } }).score(answered(reply), {
      ...{ key: keyFromSeed(0), signal },
    }),
  )

const passes = async (code: string, test: CodeTest, limits = {}): Promise<boolean> =>
  (await scoreOf(fenced(code), [test], limits)).success

const asserts = (code: string, subjects?: readonly string[]): CodeTest => ({
  ...{ _tag: 'Asserts', code },
  ...(subjects !== undefined && { subjects }),
})

const DOUBLE: CodeTest = { _tag: 'Lines', input: '21\n', output: '42' }
const ADD = asserts('assert add(2, 3) == 5\nassert add("a", "b") == "ab"')

afterAll(() => {
  expect(processesWith(mark)).toEqual([])
})

describeWithPython('tests of lines', () => {
  it('pass for the right output, whatever spaces end its lines', async () => {
    expect(await passes('print(int(input()) * 2, "  ")\nprint()', DOUBLE)).toBe(true)
    expect(await passes('print(int(input()) * 3)', DOUBLE)).toBe(false)
    expect(await passes('print(42)\nraise SystemExit(1)', DOUBLE)).toBe(false)
    expect(await passes('print("42" * 100000)', DOUBLE)).toBe(false)
  })

  it('give the share of those that pass, and all or nothing where that is asked for', async () => {
    const tests: readonly CodeTest[] = [DOUBLE, { ...DOUBLE, input: '1' }, { ...DOUBLE, input: 'x' }, DOUBLE]
    const reply = fenced('print(int(input()) * 2)')
    expect(await scoreOf(reply, tests)).toEqual({ reward: 0.5, success: false, parts: { passed: 0.5, code: 1 } })
    const strict = codeTests({ ...{ tests: () => tests, sandbox, limits: LIMITS }, reward: 'all' })
    expect(await rightOf(strict.score(answered(reply), { key: keyFromSeed(0), signal }))).toEqual({
      ...{ reward: 0, success: false, parts: { passed: 0.5, code: 1 } },
    })
  })

  it('give nothing for a reply without a program', async () => {
    for (const reply of ['', 'I do not know.', '```python\nprint(42)', '```js\nprint(42)\n```']) {
      expect(await scoreOf(reply, [DOUBLE])).toEqual({ reward: 0, success: false, parts: { passed: 0, code: 0 } })
    }
  })
})

describeWithPython('assertions', () => {
  const VALUES = [
    'None, True, 0, -1, 10 ** 30, 0.1, float("inf"), 1 + 2j',
    '"é\\ud800\\n", b"\\x00", bytearray(b"x"), [], [[1], (2,), {3}], frozenset([1])',
    '{(1, 2): [3], None: {"a": 1}}',
  ]

  it('hold for a right function, and not for a wrong or missing one', async () => {
    expect(await passes('def add(a, b): return a + b', ADD)).toBe(true)
    expect(await passes('def add(a, b): return 5', ADD)).toBe(false)
    expect(await passes('def other(a, b): return a + b', ADD)).toBe(false)
    expect(await passes('def add(a, b: return', ADD)).toBe(false)
  })

  it('see plain values as they are', async () => {
    const code = VALUES.map((value) => `assert echo((${value},)) == (${value},)`).join('\n')
    const exact = `${code}\nassert type(echo(True)) is bool and type(echo((1,))) is tuple and str(echo(float("nan"))) == "nan"`
    expect(await passes('def echo(x): return x', asserts(exact))).toBe(true)
  })

  it('see objects, iterators, exceptions and functions of both sides', async () => {
    const answer = `
import collections, math
class Stack:
    def __init__(self, *items, top=None): self.items, self.name = list(items), top
    def push(self, x): self.items.append(x); return self
    def __len__(self): return len(self.items)
    def __eq__(self, other): return self.items == other.items
    def __getitem__(self, i): return self.items[i]
class Odd(ValueError): pass
def count(n):
    for i in range(n): yield i
def half(n):
    if n % 2: raise Odd('odd')
    return n // 2
def twice(f, x): return f(f(x))
def tally(text): return collections.Counter(text)
limit = 7
def nothing(): return Stack()
`
    const test = `
s = Stack(1, top='t')
assert s.push(2).push(3)[2] == 3 and len(s) == 3 and s.name == 't' and s.items == [1, 2, 3]
s.name = 'u'
assert s.name == 'u' and Stack(1) == Stack(1) and Stack(1) != Stack(2)
assert list(count(3)) == [0, 1, 2] and limit == 7 and nothing()
try: half(3); assert False
except ValueError as e: assert str(e) == 'odd'
assert twice(lambda x: x * 3, 2) == 18 and tally('aab') == {'a': 2, 'b': 1}
assert math.isclose(half(4), 2)
`
    expect(await passes(answer, asserts(test))).toBe(true)
  })

  it('hold in the form of HumanEval, and about a name of the language where it is the subject', async () => {
    const check = asserts('def check(candidate):\n    assert candidate([3, 1]) == [1, 3]\ncheck(sorted)', ['sorted'])
    expect(await passes('def sorted(x): return [min(x), max(x)]', check)).toBe(true)
    expect(await passes('def sorted(x): return x', check)).toBe(false)
  })
})

/** Loops that end early if a call raises StopIteration, which would skip the following cases. */
const SKIPPED_LOOPS: readonly (readonly [loop: string, test: string])[] = [
  ['all(map(...))', 'assert all(map(check, [1, 2, 3]))'],
  ['a comprehension over map', 'assert not [x for x in map(check, [1, 2, 3]) if x != 1]'],
  ['a callable with a sentinel', 'for x in iter(lambda: check(1), 1): assert x == 1'],
  ['a method', 'assert all(map(Box().check, [1, 2]))'],
  ['an attribute', 'import operator\nassert all(map(operator.attrgetter("value"), [Box()]))'],
  ['an item', 'assert all(map(Box().__getitem__, [0]))'],
  ['a length', 'assert all(map(len, [Box()]))'],
  ['an iterator that cannot be made', 'assert all(map(list, [Box()]))'],
]

const ENDING = `
def check(x): raise StopIteration
class Box:
    check = __getitem__ = __len__ = __iter__ = lambda self, *a: check(0)
    value = property(check)
`

const unittests = (...lines: readonly string[]): CodeTest =>
  asserts(
    [
      'import unittest',
      'class Adding(unittest.TestCase):',
      '    def test_sum(self): self.assertEqual(add(20000, 30001), 50001)',
      ...lines,
    ].join('\n'),
  )

describeWithPython('a loop of a test', () => {
  it.concurrent.each(SKIPPED_LOOPS)('is not ended by StopIteration of the answer: %s', async (_, test) => {
    expect(await passes(ENDING, asserts(test))).toBe(false)
  })

  it('ends where an iterator of the answer does', async () => {
    const test =
      'assert list(count()) == [1, 2]\nit = count(); next(it); next(it)\ntry: next(it); assert False\nexcept StopIteration: pass'
    expect(await passes('def count(): yield from (1, 2)', asserts(test))).toBe(true)
  })
})

describeWithPython('tests with unittest', () => {
  const WAYS: readonly (readonly [way: string, lines: readonly string[]])[] = [
    ['unittest.main(exit=False)', ['unittest.main(exit=False)']],
    ['unittest.main()', ['unittest.main()']],
    ['unittest.main() under __main__', ["if __name__ == '__main__':", '    unittest.main()']],
    ['a runner', ['unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Adding))']],
    ['nothing', []],
  ]
  it.concurrent.each(WAYS)('run by %s pass for a right answer alone', async (_, lines) => {
    expect(await passes('def add(a, b): return a + b', unittests(...lines))).toBe(true)
    for (const wrong of ['def add(a, b): return 0', 'def add(a, b): raise SystemExit(0)', 'import os; os._exit(0)'])
      expect(await passes(wrong, unittests(...lines))).toBe(false)
  })

  it('fail if every case is skipped, and if the run finds none', async () => {
    const skipped = unittests('    def setUp(self): self.skipTest("no")', 'unittest.main(exit=False)')
    const none = asserts('import unittest\nunittest.main(exit=False)')
    for (const test of [skipped, none]) expect(await passes('def add(a, b): return a + b', test)).toBe(false)
  })

  it('a script that runs under __main__ is run', async () => {
    const script = asserts("if __name__ == '__main__':\n    assert add(20000, 30001) == 50001")
    expect(await passes('def add(a, b): return a + b', script)).toBe(true)
    expect(await passes('def add(a, b): return 0', script)).toBe(false)
  })
})

/**
 * Ways to pass without an answer. None contains the expected 50001 before the program has found it.
 */
const CHEATS: readonly (readonly [string, string])[] = [
  ['prints a verdict', 'print(\'{"holds": true}\')\ndef add(a, b): pass'],
  ['ends with success', 'import sys; sys.exit(0)'],
  ['ends at once', 'import os; os._exit(0)'],
  ['ends when it is called', 'import os\ndef add(a, b): os._exit(0)'],
  ['exits when it is called', 'def add(a, b): raise SystemExit(0)'],
  [
    'gives what is equal to everything',
    'class Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()',
  ],
  [
    'gives a number that is equal to everything',
    'class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef add(a, b): return Any(0)',
  ],
  [
    'gives a text that is equal to everything',
    'class Any(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\ndef add(a, b): return Any("")',
  ],
  [
    'replaces the exception of assertions',
    'import builtins\nbuiltins.AssertionError = None\nclass AssertionError: pass\ndef add(a, b): return 0',
  ],
  [
    'replaces functions of the language',
    'import builtins\nfor n in ("compile", "exec", "isinstance", "bool"): setattr(builtins, n, lambda *a, **k: True)\ndef add(a, b): return 0',
  ],
  [
    'replaces what reads and writes',
    'import json\njson.dumps = lambda *a: \'{"holds": true}\'\njson.loads = lambda *a: {"holds": True}\ndef add(a, b): return 0',
  ],
  [
    'writes a verdict to every descriptor',
    'import os\nfor fd in range(64):\n    try: os.write(fd, b\'{"holds": true}\\n\')\n    except OSError: pass\ndef add(a, b): return 0',
  ],
  [
    'writes a verdict when it is called',
    'import os\ndef add(a, b):\n    for fd in range(3, 64):\n        try: os.write(fd, b\'{"holds": true}\\n\' * 3)\n        except OSError: pass',
  ],
  [
    'names the builtins of the test',
    'import os\nos.write(3, b\'{"names": {"__builtins__": {"dict": []}, "add": {"mine": 0}, "__name__": "x"}}\\n\')\ndef add(a, b): return 0',
  ],
  [
    'reads what the driver knows',
    'import sys\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        for v in f.f_locals.values():\n            if isinstance(v, int) and v == 50001: return v\n        f = f.f_back',
  ],
  [
    'looks for tests in files',
    'import glob\ndef add(a, b): return next((50001 for p in glob.glob("/tmp/**", recursive=True) + glob.glob("/proc/*/cmdline") if "add(20" in open(p).read()), 0)',
  ],
  [
    'looks for tests in memory',
    'import gc\ndef add(a, b): return 50001 if any("assert" + " add" in o for o in gc.get_objects() if isinstance(o, str)) else 0',
  ],
  ['nests without end', 'def add(a, b):\n    x = []\n    for _ in range(10 ** 5): x = [x]\n    return x'],
  [
    'writes nesting without end',
    'import os\ndef add(a, b): os.write(3, b\'{"gives": \' + b"[" * 100000 + b"]" * 100000 + b"}\\n")',
  ],
  ['says too much', 'def add(a, b): return "5" * 10 ** 7'],
  [
    'asks without end',
    'import os, sys\nsay = lambda t: os.write(3, t)\ndef add(a, b):\n    while True: say(b\'{"does": "call", "on": 0, "args": [], "named": {}}\\n\')',
  ],
  ['gives an endless list', 'def add(a, b):\n    while True: yield 50001'],
  ['replaces the operators of values', 'def add(a, b): return {"list": 50001}'],
]

describeWithPython('a program that', () => {
  const one = asserts('assert add(20000, 30001) == 50001')
  const lines: CodeTest = { _tag: 'Lines', input: '20000 30001', output: '50001' }

  it.concurrent.each(CHEATS)('%s does not pass', async (_, code) => {
    expect(await passes(code, one, { cpuSeconds: 1, wallMs: 20_000 })).toBe(false)
  })

  it('ends early passes no test of lines', async () => {
    for (const code of ['import os; os._exit(0)', 'print("passed"); exit(0)', 'print(open(0).read())']) {
      expect(await passes(code, lines)).toBe(false)
    }
  })

  it('never ends passes no test', async () => {
    expect(await passes('def add(a, b):\n    while True: pass', one, { wallMs: 700 })).toBe(false)
    expect(await passes('while True: pass', lines, { wallMs: 500 })).toBe(false)
  })
})

describeWithPython('codeTests', () => {
  const sample: RewardSample = {
    reward: codeTests({ tests: () => [DOUBLE], sandbox, limits: LIMITS }),
    task,
    gold: 'print(int(input()) * 2)',
    reply: fenced,
    worthless: ['print(42)', fenced(''), fenced('raise SystemExit(0)')],
    hostile: ['\0', '\ud800', '('.repeat(500), '`'.repeat(500), 'print(input())'].map(fenced),
  }
  // Each law runs programs: one sample is enough. That of time would run a hundred; how long a
  // program may take is tested above.
  const laws = rewardLaws(fc.constant(sample), { numRuns: 1 })
  checkLaws(
    it,
    laws.filter(({ name }) => !name.startsWith('time:')),
  )
})

it('a score that cannot be computed is a failure, not a verdict on the answer', async () => {
  const closed = liveSandbox()
  await closed.close()
  const context = { key: keyFromSeed(0), signal }
  const program = answered(fenced('print(42)'))
  for (const test of [DOUBLE, ADD]) {
    expect(await leftOf(codeTests({ tests: () => [test], sandbox: closed }).score(program, context))).toEqual({
      ...{ _tag: 'RewardFailure', rewardName: 'codeTests', reason: 'the sandbox is closed' },
    })
  }
  expect(await leftOf(codeTests({ tests: () => [], sandbox }).score(program, context))).toMatchObject({
    reason: 'the task a has no tests',
  })
  const called = codeTests({ tests: () => [DOUBLE], sandbox: closed })
  expect(await leftOf(called.score(program, { ...context, signal: AbortSignal.abort() }))).toMatchObject({
    reason: 'the score was cancelled',
  })
})

it('blocks of code are found in any text', () => {
  const text = 'a\n```python\nx\n```\n~~~~ JS now\n```\n~~~\n~~~~\n````\n```\n````\n``` a`b\n```\nopen'
  expect(codeFences(text)).toEqual([
    { language: 'python', code: 'x', isClosed: true },
    { language: 'js', code: '```\n~~~', isClosed: true },
    { language: '', code: '```', isClosed: true },
    { language: '', code: 'open', isClosed: false },
  ])
  expect(codeFences('`'.repeat(1e6)).length).toBe(1)
  expect(codeFences('```\n'.repeat(1e5)).length).toBe(5e4)
})
