/** Texts that TorchRL's parsers have read. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type CallParser, JSONCallParser, XMLBlockParser } from '../../src/toolCalls/blockParsers.js'
import { messageOfCalls } from '../../src/toolCalls/callMessage.js'

interface Reading {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: unknown; readonly id?: string }[]
}

interface Row {
  readonly format: 'xml_block' | 'json_call'
  readonly name: string
  readonly text: string
  readonly expected: Reading | { readonly error: string }
}

const FILE = new URL('../../../../test/golden/toolCalls/torchrl.json', import.meta.url)
const { answers } = JSON.parse(readFileSync(FILE, 'utf8')) as { readonly answers: readonly Row[] } // a file of this repository

const PARSERS: Readonly<Record<Row['format'], CallParser>> = {
  xml_block: XMLBlockParser(),
  json_call: JSONCallParser(),
}

/**
 * Our reading in TorchRL's form: without blanks around the text, and without malformed calls.
 */
const readingOf = (parse: CallParser, text: string): Reading & { readonly malformed: number } => {
  const found = parse(text)
  const { message, malformedCalls } = messageOfCalls('', found.calls, { isComplete: true })
  return { text: found.text.trim(), calls: message.toolCalls, malformed: malformedCalls.length }
}

const BAD = 'TorchRL calls the tool with what it was not asked with; the policy is told that the call is malformed'

/** Intended differences. */
const DIFFERENCES: Readonly<Record<string, Reading & { readonly malformed: number; readonly reason: string }>> = {
  'bad body': { reason: BAD, text: '', calls: [], malformed: 1 },
  'a list': { reason: BAD, text: '', calls: [], malformed: 1 },
  'its own tag in a string': {
    ...{ reason: 'a string may say what ends the block', malformed: 0 },
    ...{ text: '', calls: [{ name: 'f', arguments: { a: '</tool>' } }] },
  },
  'no end': {
    reason: 'a call that breaks off is malformed, and no text',
    text: '',
    calls: [],
    malformed: 1,
  },
  'without arguments': {
    ...{ reason: 'TorchRL throws', malformed: 0 },
    ...{ text: '', calls: [{ name: 'now', arguments: {} }] },
  },
  'other JSON': { reason: 'no text is lost', text: '{"answer": 5}', calls: [], malformed: 0 },
}

describe("a text of TorchRL's parsers", () => {
  it.each(answers.map((row) => [`${row.format}: ${row.name}`, row] as const))(
    '%s',
    (_, { format, name, text, expected }) => {
      const ours = readingOf(PARSERS[format], text)
      const difference = DIFFERENCES[name]
      if (difference === undefined) expect(ours).toEqual({ ...expected, malformed: 0 })
      else {
        const { reason, ...wanted } = difference
        expect(ours, reason).toEqual(wanted)
        expect(ours).not.toEqual({ ...expected, malformed: 0 })
      }
    },
  )

  it('a bad body keeps its text', () => {
    const { message } = messageOfCalls('Hm.', XMLBlockParser()('<tool name="f">{oops</tool>').calls, {
      isComplete: true,
    })
    expect(message.content).toEqual([{ type: 'text', text: 'Hm.\n[malformed tool call] f({oops)' }])
  })
})
