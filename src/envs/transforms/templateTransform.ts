import { checkOptions, type TemplateFailure } from '@tandem-rl/base'
import {
  appendRanges,
  type ChatTemplate,
  cutRanges,
  type History,
  message,
  type Rendered,
  type RenderOptions,
  render,
  type TextRange,
  type TextSpan,
  type TextTokenizer,
} from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { textInputs } from '../../data/inputs.js'
import type { HistoryAction, HistoryPrompt, StopReason } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { find, findData, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import { TEXT_OPTIONS } from '../optionKinds.js'
import { isOpen, keptOf } from './keptReply.js'
import { foldedRows } from './segments.js'
import { type Transform, transform } from './transform.js'

/** The conversation as the model reads it, with the message that each part belongs to. */
export type TextEntries = {
  readonly text: TensorDict<{
    readonly prompt: Data<string>
    readonly spans: Data<readonly TextSpan[]>
    /** The parts from messages, in which control tokens are not recognized. */
    readonly plainText: Data<readonly TextRange[]>
  }>
}

type TextResponse = { readonly text: TensorDict<{ readonly response: Data<string> }> }

export interface TemplateTransformOptions {
  readonly template: ChatTemplate
  /** The text that ends the policy's turn, as it is sampled: it is not part of the message. */
  readonly endOfTurn: string
  /**
   * Other texts with which a model ends its turn, such as another `eos_token`: they are not part of
   * the message either. The conversation continues after such an end as after `endOfTurn`.
   */
  readonly otherEnds?: readonly string[]
  /** The tools in the form that the template expects: `toolSpecs` of a registry. Default: none. */
  readonly tools?: readonly object[]
}

/**
 * Template and tokenizer options of a model in one record, of which each transform reads its part.
 */
export interface TextTransformOptions extends Partial<TemplateTransformOptions> {
  readonly tokenizer?: TextTokenizer
  readonly files?: Readonly<Record<string, string>>
}

/** A template and the tools that it renders. */
type Rendering = Pick<TemplateTransformOptions, 'template' | 'tools'>

const renderOne = (
  { template, tools }: Rendering,
  history: History,
  generationPrompt: RenderOptions['generationPrompt'] = 'add',
): E.Either<TemplateFailure, Rendered> =>
  render(template, history, { generationPrompt, ...(tools !== undefined && { tools }) })

const FAIL = 'TemplateTransform'

const failed = (reason: string, cause?: TemplateFailure): E.Either<EnvFailure, never> =>
  E.left(envFailure(FAIL, reason, cause))

/**
 * Renders each conversation, or returns the first failure. Members of a group share their prompt
 * and its rendering.
 */
const renderAll = (rendering: Rendering, histories: readonly History[]): E.Either<EnvFailure, readonly Rendered[]> => {
  const results: Rendered[] = []
  const known = new Map<string, Rendered>()
  for (const [i, history] of histories.entries()) {
    const name = JSON.stringify(history.messages)
    const rendered = known.has(name) ? E.right(known.get(name)!) : renderOne(rendering, history)
    if (E.isLeft(rendered)) return failed(`conversation ${i}: ${rendered.left.reason}`, rendered.left)
    known.set(name, rendered.right)
    results.push(rendered.right)
  }
  return E.right(results)
}

const entriesOf = (rendered: readonly Rendered[], batchShape: readonly number[]): TensorDict<TextEntries> =>
  TensorDict(
    {
      text: {
        prompt: data(rendered.map((r) => r.text)),
        spans: data(rendered.map((r) => r.spans)),
        plainText: data(rendered.map((r) => r.plainText)),
      },
    },
    batchShape,
  )

/** The specs of `TextEntries`. */
export const TEXT_SPECS = {
  prompt: dataSpec<string>('string'),
  spans: dataSpec<readonly TextSpan[]>('TextSpan[]'),
  plainText: dataSpec<readonly TextRange[]>('TextRange[]'),
}

const doneRows = (td: TensorDict): ArrayLike<number> => {
  const done = find(td, ['done'])
  return done instanceof tf.Tensor ? done.dataSync() : []
}

/**
 * Conversation to text on the way out, text to message on the way in.
 *
 * On reset, `text.prompt` is the conversation rendered with the model's chat template, followed by
 * the start of the assistant's turn. On step, it is the previous prompt, the completion as sampled,
 * and the text that the template adds after it; the policy's text is never rendered again. Ended
 * episodes keep their text. If an environment changes the end of a reply and reports the kept part
 * in `history.kept` (`AddThinkingPrompt`), the text continues from there. A conversation that
 * `contextFolding` has folded is rendered anew. The inverse makes
 * `history.response`, an assistant message without the end-of-turn marker. It is incomplete if the
 * marker was not reached, unless the policy stopped by itself, as at a stop string.
 *
 * `text.plainText` marks the parts from messages, in which `Tokenizer` never recognizes special
 * tokens. The policy's text is not included, because its token ids are kept.
 *
 * Errors   `Left(EnvFailure)` with the template's failure if it raises an exception, its spans
 *          cannot be determined, or it rewrites the policy's text, so that the conversation cannot
 *          continue.
 * Source   TorchRL `TemplateTransform`, and `History.apply_chat_template`; spans and the
 *          token-first rule are ours.
 */
export const TemplateTransform = (
  options: TemplateTransformOptions,
): Transform<null, HistoryPrompt, TextEntries, HistoryAction, TextResponse> => {
  checkOptions<TextTransformOptions>('TemplateTransform', options, TEXT_OPTIONS)
  const ends = [options.endOfTurn, ...(options.otherEnds ?? [])]
  return transform<null, HistoryPrompt, TextEntries, HistoryAction, TextResponse>({
    name: 'TemplateTransform',
    initial: null,
    inputs: () => textInputs({ template: options.template }),
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec('Message') } },
    },
    adds: { text: TEXT_SPECS },
    takes: { removes: { history: {} }, adds: { text: { response: dataSpec<string>('string') } } },
    reset: (td) => {
      const rendered = renderAll(options, get(td, 'history', 'prompt').items.toArray())
      return TE.fromEither(E.map((r: readonly Rendered[]) => [entriesOf(r, td.batchShape), null] as const)(rendered))
    },
    step: (next, { previous, action }) => {
      const before = get(previous as TensorDict<TextEntries>, 'text') // added by `reset` or the last step
      const request = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
      const written = get(action as TensorDict<TextResponse>, 'text', 'response').items // needed by `inverse`
      const done = doneRows(next)
      const [keptBefore, kept] = [keptOf(previous), keptOf(next)]
      const histories = get(next, 'history', 'prompt').items.toArray()
      const isFolded = foldedRows(previous, next)
      const continued = continueAll(options, histories, (i) => ({
        soFar: get(before, 'prompt').items.get(i)! + written.get(i)!.slice(0, kept(i) ?? undefined),
        start: get(before, 'prompt').items.get(i)!.length,
        spans: get(before, 'spans').items.get(i)!,
        plainText: get(before, 'plainText').items.get(i)!,
        reply: request.get(i)!.messages.size - (isOpen(request.get(i)!, keptBefore(i)) ? 1 : 0),
        isDone: done[i] === 1,
        isFolded: isFolded(i),
        generationPrompt: isOpen(histories[i]!, kept(i)) ? 'continue' : 'add',
      }))
      return TE.fromEither(E.map((r: readonly Rendered[]) => [entriesOf(r, next.batchShape), null] as const)(continued))
    },
    inverse: (action) => {
      const stopReasons = findData<StopReason>(action, 'stopReason')
      const responses = get(action, 'text', 'response').items.map((text, i) => {
        const end = ends.find((each) => text.endsWith(each))
        const isComplete = end !== undefined || stopReasons?.[i] === 'stop'
        return message('assistant', text.slice(0, text.length - (end ?? '').length), { isComplete })
      })
      return E.right(TensorDict({ history: { response: data(responses) } }, action.batchShape))
    },
  })
}

interface Written {
  /** The prompt as rendered and the completion as sampled. */
  readonly soFar: string
  /** The position at which the completion starts in it. */
  readonly start: number
  readonly spans: readonly TextSpan[]
  readonly plainText: readonly TextRange[]
  /** The index of the message that the policy wrote. */
  readonly reply: number
  readonly isDone: boolean
  /** True if the conversation starts again with a summary. */
  readonly isFolded: boolean
  readonly generationPrompt: RenderOptions['generationPrompt']
}

/**
 * Returns a text with the template's own end of turn after each reply that ended with another one,
 * which is how the template renders it.
 */
const asRendered = (
  { text, spans }: Pick<Rendered, 'text' | 'spans'>,
  { endOfTurn, otherEnds = [] }: TemplateTransformOptions,
): string =>
  spans
    .map(({ start, end, role }) => {
      const part = text.slice(start, end)
      const other = role === 'assistant' ? otherEnds.find((each) => part.endsWith(each)) : undefined
      return other === undefined ? part : part.slice(0, part.length - other.length) + endOfTurn
    })
    .join('')

/** Returns the texts that conversations continue from. */
const continueAll = (
  rendering: TemplateTransformOptions,
  histories: readonly History[],
  writtenAt: (i: number) => Written,
): E.Either<EnvFailure, readonly Rendered[]> => {
  const results: Rendered[] = []
  for (const [i, history] of histories.entries()) {
    const written = writtenAt(i)
    if (written.isFolded) {
      const fresh = renderOne(rendering, history)
      if (E.isLeft(fresh)) return failed(`conversation ${i}: ${fresh.left.reason}`, fresh.left)
      results.push(fresh.right)
      continue
    }
    const end = written.soFar.length
    const reply = { start: written.start, end, message: written.reply, role: history.messages.get(written.reply)!.role }
    const soFar = { text: written.soFar, spans: [...written.spans, reply], plainText: written.plainText }
    if (written.isDone) {
      results.push(soFar)
      continue
    }
    const rendered = renderOne(rendering, history, written.generationPrompt)
    if (E.isLeft(rendered)) return failed(`conversation ${i}: ${rendered.left.reason}`, rendered.left)
    const begun = asRendered(soFar, rendering)
    if (!rendered.right.text.startsWith(begun)) {
      return failed(
        `conversation ${i}: the template rewrites what the policy has written, so it cannot be continued token by token`,
      )
    }
    const { text, spans, plainText } = rendered.right
    const moved = end - begun.length
    const rest = spans.filter((span) => span.end > begun.length)
    results.push({
      text: written.soFar + text.slice(begun.length),
      spans: [
        ...soFar.spans,
        ...rest.map((span) => ({ ...span, start: Math.max(span.start + moved, end), end: span.end + moved })),
      ],
      plainText: appendRanges(soFar.plainText, cutRanges(plainText, begun.length, text.length), end),
    })
  }
  return E.right(results)
}
