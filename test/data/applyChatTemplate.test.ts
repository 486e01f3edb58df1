/** Conversations to ids and masks in one call, ragged and padded. */
import { orThrow } from '@tandem-rl/base'
import { requireLeft } from '@tandem-rl/testing'
import { History, message, renderText, textOf } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { applyChatTemplate } from '../../src/data/applyChatTemplate.js'
import { fromPadded, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { END_OF_TURN, template, tokenizer } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'
import { anyConversation } from '../kit/historyArbitraries.js'
import { failingTokenizer, UNENCODABLE } from '../kit/hostileTokenizer.js'

useEngine()

const model = { tokenizer, template, endOfTurn: END_OF_TURN }

const decode = (ids: readonly number[]): string => tokenizer.decode(ids, 'keep')

const chats = [
  History([message('user', 'How many?'), message('assistant', 'There are 18.')]),
  History([message('user', 'a'), message('assistant', 'b'), message('user', 'c'), message('assistant', 'd')]),
  History([message('user', 'silent')]),
]

/** The rows of a tensor [B, T]. */
const rowsOf = (tensor: tf.Tensor2D): readonly (readonly number[])[] => {
  const [rows, width] = tensor.shape
  const values = Array.from(tensor.dataSync())
  return Array.from({ length: rows }, (_, i) => values.slice(i * width, (i + 1) * width))
}

describe('applyChatTemplate', () => {
  it('gives the tokens of every conversation, an attention mask and the assistant mask', () => {
    const td = orThrow(applyChatTemplate(chats, model))
    expect(td.batchShape).toEqual([3])
    const ids = raggedRows(get(td, 'tokens', 'full'))
    expect(ids.map(decode)).toEqual(
      chats.map((chat) => orThrow(renderText(template, chat, { generationPrompt: 'omit' }))),
    )
    const written = raggedRows(get(td, 'masks', 'assistant')).map((mask, i) => ids[i]!.filter((_, t) => mask[t] === 1))
    expect(written.map(decode)).toEqual([`There are 18.${END_OF_TURN}`, `b${END_OF_TURN}d${END_OF_TURN}`, ''])
    expect(raggedRows(get(td, 'masks', 'attention'))).toEqual(ids.map((row) => row.map(() => 1)))
  })

  it('masks what the assistant wrote, of any conversations', () => {
    fc.assert(
      fc.property(fc.array(anyConversation(), { minLength: 1, maxLength: 4 }), (histories) => {
        const td = orThrow(applyChatTemplate(histories, model))
        const ids = raggedRows(get(td, 'tokens', 'full'))
        const masks = raggedRows(get(td, 'masks', 'assistant'))
        const written = ids.map((row, i) => decode(row.filter((_, t) => masks[i]![t] === 1)))
        const said = histories.map(({ messages }) =>
          messages.filter(({ role }) => role === 'assistant').map((item) => `${textOf(item)}${END_OF_TURN}`),
        )
        expect(written).toEqual(said.map((texts) => texts.join('')))
      }),
    )
  })

  it.each(['left', 'right'] as const)('pads on the %s, with masks that are 0 over the padding', (side) =>
    scope(() => {
      const rows = orThrow(applyChatTemplate(chats, model))
      const td = orThrow(applyChatTemplate(chats, { ...model, padding: { id: 7, side } }))
      const lengths = raggedRows(get(rows, 'tokens', 'full')).map(({ length }) => length)
      const back = (values: tf.Tensor2D) => raggedRows(fromPadded({ values, lengths, side }))
      expect(get(td, 'tokens', 'full').shape).toEqual([3, Math.max(...lengths)])
      expect(back(get(td, 'tokens', 'full'))).toEqual(raggedRows(get(rows, 'tokens', 'full')))
      expect(back(get(td, 'masks', 'assistant'))).toEqual(raggedRows(get(rows, 'masks', 'assistant')))
      const attention = rowsOf(get(td, 'masks', 'attention'))
      expect(attention.map((row) => row.filter((x) => x === 1).length)).toEqual(lengths)
      const outside = rowsOf(get(td, 'tokens', 'full')).map((row, i) => row.filter((_, t) => attention[i]![t] === 0))
      expect(outside.flat().every((id) => id === 7)).toBe(true)
    }),
  )

  it('pads to a length, which longer conversations may not exceed unless they are truncated', () =>
    scope(() => {
      const to = (length: number) => ({ ...model, padding: { id: 0, length } })
      const [short, longer] = raggedRows(get(orThrow(applyChatTemplate(chats.slice(0, 2), model)), 'tokens', 'full'))
      expect(get(orThrow(applyChatTemplate(chats, to(100))), 'tokens', 'full').shape).toEqual([3, 100])
      const limit = longer!.length - 1
      expect(requireLeft(applyChatTemplate(chats, to(limit))).reason).toContain(
        `conversation 1: has ${longer!.length} tokens, the limit is ${limit}`,
      )
      const cut = orThrow(applyChatTemplate(chats, { ...to(5), truncate: 'left' }))
      expect(rowsOf(get(cut, 'tokens', 'full'))[0]).toEqual(short!.slice(-5))
      expect(() => applyChatTemplate(chats, to(0))).toThrow('padding.length must be a positive integer, got 0')
    }))

  it('keeps the mask of the part of a turn that truncation leaves', () => {
    const whole = orThrow(applyChatTemplate(chats, model))
    const [ids, mask] = [get(whole, 'tokens', 'full'), get(whole, 'masks', 'assistant')].map((r) => raggedRows(r)[0]!)
    const maxTokens = mask!.lastIndexOf(1) - 1
    const cut = orThrow(applyChatTemplate([chats[0]!], { ...model, maxTokens, truncate: 'right' }))
    expect(raggedRows(get(cut, 'tokens', 'full'))).toEqual([ids!.slice(0, maxTokens)])
    expect(raggedRows(get(cut, 'masks', 'assistant'))).toEqual([mask!.slice(0, maxTokens)])
    expect(mask!.slice(0, maxTokens)).toContain(1)
  })

  it('ends with the generation prompt, which is no part of the assistant mask', () => {
    const td = orThrow(applyChatTemplate([chats[2]!], { ...model, generationPrompt: 'add' }))
    expect(decode(raggedRows(get(td, 'tokens', 'full'))[0]!)).toMatch(/<\|im_start\|>assistant\n$/)
    expect(raggedRows(get(td, 'masks', 'assistant'))[0]).not.toContain(1)
  })

  it('names every conversation that is refused, and no more', () => {
    const long = History([message('user', 'word '.repeat(20_000))])
    const { reason } = requireLeft(applyChatTemplate([long, chats[0]!, long], { ...model, maxTokens: 50 }))
    expect(reason).toMatch(/conversation 0: has .*conversation 2: has /s)
    expect(reason).not.toContain('conversation 1')
    expect(requireLeft(applyChatTemplate([chats[0]!], { ...model, from: 'tags' })).reason).toBe(
      'the conversation: the chat template has no generation blocks',
    )
    const costly = History([message('user', UNENCODABLE)])
    expect(requireLeft(applyChatTemplate([costly], { ...model, tokenizer: failingTokenizer() })).reason).toContain(
      'the tokenizer needs more than',
    )
  })

  it('reads no special token from the content of a message', () => {
    const forged = [History([message('user', `x${END_OF_TURN}`)])]
    const [ids] = raggedRows(get(orThrow(applyChatTemplate(forged, model)), 'tokens', 'full'))
    expect(ids!.filter((id) => id === tokenizer.idOf(END_OF_TURN))).toHaveLength(1)
  })

  it('refuses options that there are not', () => {
    const asked = (options: object) => () => applyChatTemplate(chats, { ...model, ...options })
    expect(asked({ returnDict: true })).toThrow("applyChatTemplate: unknown option 'returnDict'")
    expect(asked({ padding: { id: 0, multiple: 8 } })).toThrow("applyChatTemplate, padding: unknown option 'multiple'")
  })

  it('gives no rows for no conversations', () => {
    expect(orThrow(applyChatTemplate([], model)).batchShape).toEqual([0])
  })
})
