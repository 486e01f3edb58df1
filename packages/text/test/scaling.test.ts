/** Functions over spans, ranges and messages take time in proportion to their input. */
import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, it } from 'vitest'
import { countedReads, cpuSeconds, expectLinear } from '../../../test/kit/scaling.js'
import { tokenizer } from '../../../test/kit/served.js'
import { History, message } from '../src/history/history.js'
import { type ChatTemplate, chatTemplate, type Rendered, render, renderSuffix } from '../src/template/chatTemplate.js'
import { grammarOf } from '../src/template/grammar.js'
import { assistantText, tokenMask } from '../src/template/masks.js'
import { cutRanges, joinRanges, overlapTest, type TextRange } from '../src/textRange.js'
import { encodeRendered } from '../src/tokenizer/textTokenizer.js'

/** Ranges of one character with one between them. */
const everyOther = (count: number): readonly TextRange[] =>
  Array.from({ length: count }, (_, i) => ({ start: 2 * i, end: 2 * i + 1 }))

/** The number of reads of the fields of ranges by a run. */
const readsBy = (run: (ranges: readonly TextRange[], count: number) => void) => (count: number) => {
  const { items, reads } = countedReads(everyOther(count))
  run(items, count)
  return reads()
}

const chat = (count: number): History =>
  History(Array.from({ length: count }, (_, i) => message(i % 2 === 0 ? 'user' : 'assistant', 'x')))

const CHATML = orThrow(
  chatTemplate(`{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`),
)

/** A template that counts its runs. */
const countingRuns = (template: ChatTemplate): { readonly template: ChatTemplate; readonly runs: () => number } => {
  let runs = 0
  const run: ChatTemplate['run'] = (...asked) => {
    runs++
    return template.run(...asked)
  }
  return { template: { ...template, run }, runs: () => runs }
}

describe('the work grows as the number of ranges for', () => {
  it('special tokens in ranges of plain text', () => {
    expectLinear(
      readsBy((ranges, count) => {
        tokenizer.encode('a<|im_end|>'.repeat(count), { specialTokens: { plainText: ranges } })
      }),
      500,
    )
  })

  it('a test of overlaps', () => {
    expectLinear(
      readsBy((ranges, count) => {
        const isTouched = overlapTest(ranges)
        for (let i = 0; i < count; i++) isTouched(i, i + 1)
      }),
      500,
    )
  })

  it('joined and cut ranges', () => {
    expectLinear(
      readsBy((ranges, count) => joinRanges(cutRanges(ranges, 1, 2 * count - 1))),
      500,
    )
  })

  it('the mask of tokens', () => {
    expectLinear(
      readsBy((ranges, count) => {
        tokenMask(
          ranges,
          Array.from({ length: 2 * count }, (_, i) => [i, i + 1] as const),
        )
      }),
      500,
    )
  })

  it.each([
    ['the tokens of spans', 1],
    ['tokens that cross the borders of spans', 3],
  ])('%s', (_, width) => {
    expectLinear((count) => {
      const word = 'the cat sat on the mat'.slice(0, width)
      const spans = Array.from({ length: count * word.length }, (_, i) => ({ start: i, end: i + 1 }))
      const { items, reads } = countedReads(spans.map((span, i) => ({ ...span, message: i, role: 'user' })))
      encodeRendered(tokenizer, { text: word.repeat(count), spans: items, plainText: [] })
      return reads()
    }, 500)
  })

  it('the ranges that a template writes in its loop over the messages', () => {
    const spansOf = (count: number): number => {
      const text = 'xy'.repeat(count)
      const items = Array.from({ length: 2 * count }, (_, i) => ({ item: i >> 1, start: i, end: i + 1 }))
      const counted = countedReads(items)
      const watched = { text, items: counted.items, generations: [], given: [] }
      const refusing: ChatTemplate = {
        ...{ source: '', own: { variables: {} } },
        contentForm: 'text',
        tools: 'shown',
        // each message changes those before it, except in the whole conversation
        run: (messages) => E.right(messages.length === count ? watched : { ...watched, text: `${messages.length}` }),
      }
      orThrow(render(refusing, chat(count), { generationPrompt: 'omit' })) satisfies Rendered
      return counted.reads()
    }
    expectLinear(spansOf, 200)
  })
})

describe('a template runs in proportion to the number of messages for', () => {
  const runsBy = (run: (template: ChatTemplate, history: History) => unknown) => (count: number) => {
    const { template, runs } = countingRuns(CHATML)
    run(template, chat(count))
    return runs()
  }

  it('the spans of messages', () => {
    expectLinear(
      runsBy((template, history) => orThrow(render(template, history, { generationPrompt: 'add' }))),
      10,
    )
  })

  it("the assistant's text from spans", () => {
    const options = { from: 'spans', endOfTurn: '<|im_end|>', generationPrompt: 'omit' } as const
    expectLinear(
      runsBy((template, history) => orThrow(assistantText(template, history, options))),
      10,
    )
  })

  it('the text of later messages, in two runs', () => {
    expectLinear(
      runsBy((template, history) => orThrow(renderSuffix(template, history, { from: 4, generationPrompt: 'add' }))),
      10,
    )
  })
})

describe('the CPU time grows as the number of messages for', () => {
  it('a conversation that is rendered and encoded', () => {
    expectLinear((count) => {
      const { text, given } = orThrow(
        CHATML.run(Array(count).fill({ role: 'user', content: 'x<|im_end|>' }), { generationPrompt: 'add' }),
      )
      return cpuSeconds(() => tokenizer.encode(text, { specialTokens: { plainText: given } }))
    }, 4000)
  })
})

describe('the CPU time grows as the text of a template for', () => {
  it('the format of calls, which is searched among braces that nothing closes', () => {
    const withBraces = (count: number): ChatTemplate =>
      orThrow(
        chatTemplate(`{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content -}}
{%- if message.tool_calls -%}{{- '${'{'.repeat(count)}' -}}{%- endif -%}{{- '<|im_end|>\\n' -}}
{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`),
      )
    expectLinear((count) => {
      const template = withBraces(count)
      return cpuSeconds(() => grammarOf(template, {}))
    }, 4000)
  })
})
