import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import {
  type ChatTemplate,
  chatTemplate,
  History,
  type Message,
  message,
  renderText,
  appendMessage as say,
  type TextSpan,
  textOf,
} from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  asking,
  CHAT_ML,
  END_OF_TURN,
  followUp,
  freeing,
  itemsAt,
  refused,
  template,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(3)
const chatML = TemplateTransform({ template, endOfTurn: END_OF_TURN })

/** Replies with the end-of-turn marker, without it, and with a part of it. */
const written = fc.tuple(fc.string({ maxLength: 12 }), fc.constantFrom('', END_OF_TURN, '<|im_')).map(([a, b]) => a + b)
const exchanges = fc.array(fc.tuple(fc.string({ maxLength: 12 }), written), { minLength: 1, maxLength: 3 })

const wrote = (...texts: readonly string[]) => TensorDict({ text: { response: data(texts) } }, [texts.length])

const prompts = (histories: readonly History[]): TensorDict =>
  TensorDict({ history: { prompt: data(histories) } }, [histories.length])

/** The message that a template puts the text into. */
const messageOf = (text: string): Message =>
  text.endsWith(END_OF_TURN)
    ? message('assistant', text.slice(0, -END_OF_TURN.length))
    : message('assistant', text, { isComplete: false })

const samples = exchanges.map((pairs) => {
  const opened = pairs.map(([question]) => History([message('user', question)]))
  return {
    inner: {
      observation: { history: { prompt: dataSpec('History') } },
      action: { history: { response: dataSpec('Message') } },
    },
    state: () => prompts(opened),
    action: () => wrote(...pairs.map(([, text]) => text)),
    next: () => prompts(opened.map((history, i) => say(history, messageOf(pairs[i]![1])))),
  }
})

/** A chat in ChatML, or another template, with a user who asks on. */
const chat = (batchSize: number, using: ChatTemplate = template) =>
  pipe(
    ChatEnv({ batchSize, systemPrompt: 'Be brief.' }),
    append(followUp('And then?')),
    append(TemplateTransform({ template: using, endOfTurn: END_OF_TURN })),
  )

const compiled = (source: string): ChatTemplate => orThrow(chatTemplate(source))

const spansOf = (state: TensorDict): readonly (readonly TextSpan[])[] =>
  itemsAt(state, 'text', 'spans') as readonly (readonly TextSpan[])[] // by the schema of TextEntries

describe('TemplateTransform', () => {
  describe('as a transform', () => checkLaws(it, transformLaws(fc.constant(erased(chatML)), samples)))

  it('writes the conversation and the beginning of the assistant turn', async () => {
    const state = await answered(chat(2).reset(asking('1 + 1?', '2 + 2?'), key))
    const opening = (q: string): string =>
      `<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n${q}<|im_end|>\n<|im_start|>assistant\n`
    expect(itemsAt(state, 'text', 'prompt')).toEqual([opening('1 + 1?'), opening('2 + 2?')])
  })

  it('goes on from what the policy wrote, letter by letter, and ends where the template would', async () => {
    const law = fc.asyncProperty(exchanges, (pairs) =>
      freeing(async (keep) => {
        const env = chat(pairs.length)
        const state = await answered(env.reset(asking(...pairs.map(([q]) => q)), key))
        const next = keep(await answered(env.step(state, wrote(...pairs.map(([, text]) => text)))))
        const before = get(state, 'text', 'prompt').items
        for (const [i, text] of get(next, 'text', 'prompt').items.entries()) {
          expect(text.startsWith(before.get(i)! + pairs[i]![1])).toBe(true)
          const history = get(next, 'history', 'prompt').items.get(i)!
          expect(E.right(text)).toEqual(renderText(template, history, { generationPrompt: 'add' }))
        }
      }),
    )
    await fc.assert(law)
  })

  it('spans lie side by side over the whole text, each with the message it is from', async () => {
    const law = fc.asyncProperty(exchanges, written, (pairs, second) =>
      freeing(async (keep) => {
        const env = chat(pairs.length)
        const state = await answered(env.reset(asking(...pairs.map(([q]) => q)), key))
        const next = keep(await answered(env.step(state, wrote(...pairs.map(([, text]) => text)))))
        const last = keep(await answered(env.step(next, wrote(...pairs.map(() => second)))))
        for (const td of [state, next, last]) {
          for (const [i, spans] of spansOf(td).entries()) {
            expect(spans.map((span) => span.start)).toEqual([0, ...spans.slice(0, -1).map((span) => span.end)])
            expect(spans.at(-1)!.end).toBe(get(td, 'text', 'prompt').items.get(i)!.length)
            const messages = spans.map((span) => span.message)
            expect(messages).toEqual([...messages].sort((a, b) => a - b))
          }
        }
      }),
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('names the role of each span: the reply is its own', () =>
    freeing(async (keep) => {
      const env = chat(1)
      const state = await answered(env.reset(asking('Hi'), key))
      const next = keep(await answered(env.step(state, wrote(`Yes.${END_OF_TURN}`))))
      const text = get(next, 'text', 'prompt').items.get(0)!
      const parts = spansOf(next)[0]!.map(({ start, end, role }) => [role, text.slice(start, end)])
      expect(parts).toEqual([
        ['system', '<|im_start|>system\nBe brief.<|im_end|>\n'],
        ['user', '<|im_start|>user\nHi<|im_end|>\n'],
        ['assistant', '<|im_start|>assistant\n'],
        ['assistant', 'Yes.<|im_end|>'],
        ['assistant', '\n'],
        ['user', '<|im_start|>user\nAnd then?<|im_end|>\n'],
        ['assistant', '<|im_start|>assistant\n'],
      ])
    }))

  it('an episode that is done keeps the text that was written, and nothing is added', () =>
    freeing(async (keep) => {
      const opened = prompts([History([]), History([])])
      const [added0] = await answered(chatML.reset(opened as never, null, key)) // conversations, by `prompts`
      const previous = merge(opened, added0) as TensorDict // any schema is one
      const answer = message('assistant', 'x')
      const ended = TensorDict({ done: tf.tensor1d([1, 0], 'bool') }, [2])
      const next = keep(
        TensorDict(
          { done: get(ended, 'done'), history: { prompt: data([History([answer]), History([answer])]) } },
          [2],
        ),
      )
      const context = { previous, action: wrote(`x${END_OF_TURN}`, `x${END_OF_TURN}`) }
      const [added] = await answered(chatML.step(next, context, null))
      const start = '<|im_start|>assistant\nx<|im_end|>'
      expect(itemsAt(added, 'text', 'prompt')).toEqual([start, `${start}\n<|im_start|>assistant\n`])
    }))

  it('the inverse takes the marker off, and knows by it whether the message is complete', () => {
    // Casts: this inverse reads no state and never fails; what it makes has `history.response`, by
    // its schema.
    const law = fc.property(fc.array(written, { minLength: 1 }), (texts) => {
      const inner = orThrow(chatML.inverse(wrote(...texts), TensorDict({}, [texts.length]) as never) as never) as never
      for (const [i, item] of (itemsAt(inner, 'history', 'response') as readonly Message[]).entries()) {
        expect(item).toEqual(messageOf(texts[i]!))
        expect(textOf(item) + (item.isComplete ? END_OF_TURN : '')).toBe(texts[i])
      }
    })
    fc.assert(law)
  })

  it('the inverse has a complete message where the policy stopped by itself', () => {
    const stopReason = data(['stop', 'length'] as const)
    const action = TensorDict(
      { text: { response: data(['<search>x</search>', '<search>x</search>']) }, stopReason },
      [2],
    )
    const inner = orThrow(chatML.inverse(action, TensorDict({}, [2]) as never) as never) as never // as above
    const responses = itemsAt(inner, 'history', 'response') as readonly Message[]
    expect(responses.map(({ isComplete }) => isComplete)).toEqual([true, false])
  })

  it('refuses to go on where the template rewrites what the policy wrote', async () => {
    const env = chat(2, compiled(CHAT_ML.replace('message.content', '(message.content | trim)')))
    const state = await answered(env.reset(asking('a', 'b'), key))
    const failure = await refused(env.step(state, wrote(`fine${END_OF_TURN}`, `  padded${END_OF_TURN}`)))
    expect(failure.env).toBe('TemplateTransform')
    expect(failure.reason).toMatch(/^conversation 1: .*rewrites what the policy has written/)
  })

  it('refuses a template that changes earlier messages, with its failure as the cause', async () => {
    const env = chat(1, compiled('{{ messages | length }}{{ messages[-1].content }}'))
    const failure = await refused(env.reset(asking('a'), key))
    expect(failure.cause?._tag).toBe('TemplateFailure')
    expect(failure.reason).toContain('spans')
  })

  it('a template that raises an exception fails the reset, with its own words', async () => {
    const strict =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}"
    const failure = await refused(chat(1, compiled(strict)).reset(asking('a'), key))
    expect(failure.reason).toMatch(/^conversation 0: .*no system role/)
    expect(failure.cause).toMatchObject({ _tag: 'TemplateFailure' })
  })

  describe('around a conversation', () => {
    const runs = fc.tuple(fc.string(), written).map(([question, text]) => ({
      env: chat(2),
      request: () => asking(question, 'other'),
      act: () => wrote(text, `so${END_OF_TURN}`),
      steps: 3,
    }))
    checkLaws(it, envLaws(runs))
  })
})
