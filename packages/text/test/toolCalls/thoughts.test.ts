/** Thoughts of a model, in which neither calls nor answers are read. */
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { cut, joinedDeltas } from '../../../../test/kit/toolCalls.js'
import { TOOL_CALL_FORMATS, type ToolCallFormat } from '../../src/toolCalls/format.js'
import { readToolCalls, toolCallReader } from '../../src/toolCalls/reader.js'
import {
  answerRanges,
  endsInThoughts,
  THINK_TAGS,
  type Thoughts,
  thoughtsAfter,
  thoughtTagsOf,
  withoutThoughts,
} from '../../src/toolCalls/thoughts.js'
import { writeToolCalls } from '../../src/toolCalls/write.js'

const tools = [{ type: 'function', function: { name: 'f' } }]

const callIn = (format: ToolCallFormat): string => {
  const written = writeToolCalls([{ name: 'f', arguments: { x: 1 } }], format)
  if (E.isLeft(written)) throw new Error(written.left.reason)
  return written.right
}

const OUTSIDE: Thoughts = { tags: THINK_TAGS, place: 'outside', as: 'reasoning' }
const INSIDE: Thoughts = { ...OUTSIDE, place: 'inside' }

describe('a call in thoughts', () => {
  it.each(TOOL_CALL_FORMATS)('%s: is not run, and the one after them is', (format) => {
    const call = callIn(format)
    const thought = `<think>maybe ${call}, or not</think>`
    const unwanted = readToolCalls(`${thought}The answer is 4.`, format, { tools })
    expect(unwanted.calls).toEqual([])
    const { calls } = readToolCalls(`${thought}\n\n${call}`, format, { tools })
    expect(calls.map(({ name, problem }) => [name, problem])).toEqual([['f', undefined]])
    expect(readToolCalls(`<think>${call}`, format, { tools }).calls).toEqual([])
  })

  it.each(TOOL_CALL_FORMATS)('%s: is read the same in pieces, with thoughts as text or apart', (format) => {
    const call = callIn(format)
    const piece = fc.constantFrom('<think>', '</think>', call, call.slice(0, -2), ' ', '\n', 'a', '<', 'th')
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 7 }),
        fc.array(fc.nat(), { maxLength: 5 }),
        fc.constantFrom<Thoughts>(OUTSIDE, INSIDE, { ...OUTSIDE, as: 'text' }, { ...INSIDE, as: 'text' }),
        (parts, cuts, thoughts) => {
          const text = parts.join('')
          const whole = readToolCalls(text, format, { tools, thoughts })
          const pieces = cut(
            text,
            cuts.map((each) => each % (text.length + 1)),
          )
          expect(joinedDeltas(toolCallReader(format, { tools, thoughts }), pieces)).toEqual(whole)
        },
      ),
      { numRuns: 60 },
    )
  })

  it.each(TOOL_CALL_FORMATS)('%s: is run where calls in thoughts are searched', (format) => {
    const { calls } = readToolCalls(callIn(format), format, { tools, thoughts: 'searched' })
    expect(calls).toHaveLength(1)
    const hermes = readToolCalls(`<think>${callIn('hermes')}</think>`, 'hermes', { thoughts: 'searched' })
    expect(hermes.calls).toHaveLength(1)
  })

  it('is not run where the prompt opened the thoughts', () => {
    const text = `maybe ${callIn('hermes')}</think>\n\nNo.`
    expect(readToolCalls(text, 'hermes')).toMatchObject({ calls: [], text })
    const apart = { calls: [], text: 'No.', reasoning: `maybe ${callIn('hermes')}` }
    expect(readToolCalls(text, 'hermes', { thoughts: INSIDE })).toEqual(apart)
    expect(readToolCalls(`<think>\n${text}`, 'hermes', { thoughts: INSIDE })).toEqual(apart)
  })

  it('leaves a closing tag in the arguments of a call where it is', () => {
    const call = '<tool_call>{"name": "f", "arguments": {"x": "</think>"}}</tool_call>'
    expect(readToolCalls(call, 'hermes').calls).toHaveLength(1)
    expect(readToolCalls(call, 'hermes', { thoughts: OUTSIDE }).calls).toHaveLength(1)
  })

  it('is text of the thoughts where they do not end', () => {
    expect(readToolCalls(`<think> a ${callIn('hermes')} `, 'hermes', { thoughts: OUTSIDE })).toEqual({
      ...{ text: '', calls: [] },
      reasoning: `a ${callIn('hermes')}`,
    })
  })

  it('takes linear time to skip', () => {
    const timeOf = (size: number): number => {
      const text = '[ <th'.repeat(size)
      const start = performance.now()
      readToolCalls(text, 'mistral')
      readToolCalls(`<think>${text}`, 'mistral', { thoughts: OUTSIDE })
      withoutThoughts('<think></think>'.repeat(size))
      return performance.now() - start
    }
    timeOf(10_000)
    expect(timeOf(80_000)).toBeLessThan(16 * Math.max(5, timeOf(20_000)))
  })
})

describe('thoughts', () => {
  it.each([
    ['<think>4?</think>The answer is 5.', 'The answer is 5.'],
    ['4?</think>The answer is 5.', 'The answer is 5.'],
    ['a<think>b</think>c<think>d</think>e', 'ace'],
    ['a<think>b', 'a'],
    ['<think>a<think>b</think>c', 'c'],
    ['no tags', 'no tags'],
    ['', ''],
  ])('are taken out of %j', (text, answer) => {
    expect(withoutThoughts(text)).toBe(answer)
  })

  it('without a closing tag have no answer after them', () => {
    expect(['<think>a', 'b<think>a', '<think>a</think>', 'a', 'a</think>'].map((text) => endsInThoughts(text))).toEqual(
      [...[true, true, false, false, false]],
    )
    expect(answerRanges('<think>a</think>b')).toEqual([
      [0, 0],
      [16, 17],
    ])
  })

  it('have the tags that the template writes or looks for', () => {
    expect(thoughtTagsOf("{{ content.split('</think>')[-1] }}")).toEqual(['<think>', '</think>'])
    expect(thoughtTagsOf('{{ "[THINK]" + thoughts + "[/THINK]" }}')).toEqual(['[THINK]', '[/THINK]'])
    expect(thoughtTagsOf('{{ messages[0].content }}')).toBe('none')
  })

  it('are opened by the end of a prompt only', () => {
    expect(thoughtsAfter('<|assistant|>\n<think>\n', THINK_TAGS)).toMatchObject({ place: 'inside', as: 'reasoning' })
    expect(thoughtsAfter('What does <think> mean?', THINK_TAGS)).toMatchObject({ place: 'outside' })
    expect(thoughtsAfter('<think>', 'none')).toMatchObject({ place: 'inside', as: 'text' })
    expect(thoughtsAfter('<think>', 'searched')).toBe('searched')
  })
})
