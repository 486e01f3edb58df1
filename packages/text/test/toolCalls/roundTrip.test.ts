/** Calls in the turns of chat templates. */
import { readdirSync, readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { CONVERSATIONS, callsMade, callsRead, turnOf } from '../../../../test/kit/toolCalls.js'
import { chatTemplate } from '../../src/template/chatTemplate.js'
import { type ToolCallFormat, toolCallFormatOf } from '../../src/toolCalls/format.js'
import { readToolCalls } from '../../src/toolCalls/reader.js'

const GOLDEN = new URL('../../../../test/golden/', import.meta.url)
const readGolden = (path: string): string => readFileSync(new URL(path, GOLDEN), 'utf8')

interface Turn {
  readonly template: string
  readonly format: ToolCallFormat
  readonly conversation: keyof typeof CONVERSATIONS
  readonly turn: string
}

/** Made by scripts/verify/toolCalls.ts from the templates of trl 1.13.0 and axolotl 0.19.0. */
const turns = JSON.parse(readGolden('toolCalls/turns.json')) as readonly Turn[] // a file of this repository

describe('a turn of a public template', () => {
  it.each(turns.map((turn) => [`${turn.template}, ${turn.conversation}`, turn] as const))(
    '%s: its calls are read',
    (_, turn) => {
      expect(callsRead(turn.turn, turn.format)).toEqual(callsMade(CONVERSATIONS[turn.conversation]))
    },
  )

  it('every prefix has the first of its calls, and malformed ones', () => {
    for (const { turn, format } of turns) {
      const { calls: all } = readToolCalls(turn, format)
      for (let end = 0; end < turn.length; end += 23) {
        const calls = readToolCalls(turn.slice(0, end), format).calls.filter(({ problem }) => problem === undefined)
        expect(calls).toEqual(all.slice(0, calls.length))
      }
    }
  })
})

/** Templates of this repository that write calls, with the format detected from their source. */
const TEMPLATES: readonly (readonly [
  file: string,
  format: ToolCallFormat,
  conversations: readonly (keyof typeof CONVERSATIONS)[],
])[] = [
  ['chatTemplates/templates/hermes', 'hermes', ['one call', 'two calls']],
  ['chatTemplates/templates/headers', 'llama3_json', ['one call']],
  ['chatTemplates/templates/inst', 'mistral', ['one call', 'two calls']],
  ...readdirSync(new URL('toolCalls/templates/', GOLDEN)).map((file) => {
    const name = file.replace('.jinja', '')
    return [`toolCalls/templates/${name}`, name as ToolCallFormat, ['one call', 'two calls']] as const // named after their formats
  }),
]

describe('calls through a template', () => {
  it.each(TEMPLATES.flatMap(([file, format, names]) => names.map((name) => [file, format, name] as const)))(
    '%s as %s, %s: rendered, cut out and read, they are equal',
    (file, format, name) => {
      const source = readGolden(`${file}.jinja`)
      expect(toolCallFormatOf({ source })).toBe(format)
      const turn = orThrow(
        turnOf(orThrow(chatTemplate(source, { bos_token: '<s>', eos_token: '</s>' })), CONVERSATIONS[name]),
      )
      expect(callsRead(turn, format)).toEqual(callsMade(CONVERSATIONS[name]))
    },
  )
})
