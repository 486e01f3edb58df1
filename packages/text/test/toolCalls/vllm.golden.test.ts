/** The texts of each family as vLLM's parsers read them. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { ToolCallFormat } from '../../src/toolCalls/format.js'
import type { WrittenCall } from '../../src/toolCalls/machine.js'
import { readToolCalls } from '../../src/toolCalls/reader.js'

interface Row {
  readonly format: ToolCallFormat
  readonly name: string
  readonly text: string
  readonly tools?: readonly object[]
}

interface Answer {
  readonly format: ToolCallFormat
  readonly name: string
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

const read = <T>(file: string): T =>
  JSON.parse(readFileSync(new URL(`../../../../test/golden/toolCalls/${file}`, import.meta.url), 'utf8')) as T // files of this repository

const rows = read<readonly Row[]>('texts.json')
const { answers } = read<{ readonly answers: readonly Answer[] }>('vllm.json')

/** Calls as values: the arguments of whole calls as JSON, of malformed ones as text. */
const valuesOf = (calls: readonly WrittenCall[]): readonly unknown[] =>
  calls.map(({ name, arguments: text, problem }) =>
    problem === undefined ? { name, arguments: JSON.parse(text) as unknown } : { malformed: name, text },
  )

const CUT = 'a call that breaks off is malformed; vLLM leaves it as text'
const OPEN = 'a call counts only after its end; vLLM runs it without its closing tag'

/** Intended differences: the reason, and our result. */
const DIFFERENCES: Readonly<
  Record<string, { readonly reason: string; readonly text: string; readonly calls: readonly unknown[] }>
> = {
  'hermes: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"city": ' }] },
  'hermes: without closing tag': {
    reason: OPEN,
    text: '',
    calls: [{ malformed: 'get_weather', text: '{"city": "Paris"}' }],
  },
  'hermes: broken': { reason: CUT, text: '', calls: [{ malformed: '', text: "{'name': 'f'}" }] },
  'deepseek_v3: without end': {
    reason: OPEN,
    text: '',
    calls: [{ malformed: 'get_weather', text: '{"city": "Paris"}' }],
  },
  'hermes: its own tag in a string': {
    reason: 'the closing tag counts after the JSON, not in its strings',
    text: '',
    calls: [{ name: 'say', arguments: { text: '</tool_call>' } }],
  },
  'hermes: text after': {
    reason: 'no text is lost',
    text: ' done',
    calls: [{ name: 'now', arguments: {} }],
  },
  'llama3_json: text before': {
    reason: 'the answer is a call or it is text, in a stream of vLLM too',
    text: 'Sure: {"name": "get_weather", "parameters": {"city": "Paris"}}',
    calls: [],
  },
  'llama3_json: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"city": ' }] },
  'pythonic: dotted': {
    reason: 'names of tools have dots',
    text: '',
    calls: [{ name: 'math.add', arguments: { a: 1, b: 2 } }],
  },
  'pythonic: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"city": "Par' }] },
  'pythonic: commas after the last': {
    reason: 'Python allows them',
    text: '',
    calls: [{ name: 'f', arguments: { a: [1], b: { x: 2 } } }],
  },
  'pythonic: not a literal': { reason: CUT, text: '', calls: [{ malformed: 'f', text: '{"a": (1))]' }] },
  'pythonic: text after': {
    reason: 'the list of calls has ended, and no text is lost',
    text: ' is the call',
    calls: [{ name: 'now', arguments: {} }],
  },
  'mistral: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"city": ' }] },
  'deepseek_v3: on several lines': {
    reason: 'JSON may have line ends, in a stream of vLLM too',
    text: '',
    calls: [{ name: 'get_weather', arguments: { city: 'Paris' } }],
  },
  'deepseek_v3: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"city":' }] },
  'deepseek_v31: cut': { reason: CUT, text: '', calls: [{ malformed: 'get_weather', text: '{"ci' }] },
  "qwen3_coder: Python's words": {
    reason: 'templates write None for null, as they write True for true',
    text: '',
    calls: [{ name: 'f', arguments: { b: true, u: null } }],
  },
  'qwen3_coder: several after text': {
    reason: 'the blanks of the text are its own',
    text: 'Sure.\n\n',
    calls: [
      { name: 'f', arguments: { i: 1 } },
      { name: 'f', arguments: {} },
    ],
  },
  'phi4_mini_json: lists inside': {
    reason: 'the list of calls ends with its own bracket, not with the first one in it',
    text: '',
    calls: [{ name: 'f', arguments: { a: { b: [1, { c: '}]' }], d: null }, e: -1500, t: true } }],
  },
}

describe('a text of each family', () => {
  it.each(rows.map((row, i) => [`${row.format}: ${row.name}`, row, answers[i]!] as const))(
    '%s',
    (name, row, answer) => {
      expect(answer).toMatchObject({ format: row.format, name: row.name })
      const { text, calls } = readToolCalls(row.text, row.format, row)
      const vllm = { text: answer.text, calls: valuesOf(answer.calls) }
      const ours = { text, calls: valuesOf(calls) }
      const difference = DIFFERENCES[name]
      if (difference === undefined) expect(ours).toEqual(vllm)
      else {
        expect(ours).toEqual({ text: difference.text, calls: difference.calls })
        expect(ours).not.toEqual(vllm)
      }
    },
  )

  it('no difference is left over', () => {
    const names = rows.map((row) => `${row.format}: ${row.name}`)
    expect(Object.keys(DIFFERENCES).filter((name) => !names.includes(name))).toEqual([])
  })
})
