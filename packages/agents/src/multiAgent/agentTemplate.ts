import { checkOptions, keyFromSeed } from '@tandem-rl/base'
import type { History, Message, TextRange, TextSpan, TextTokenizer, TokenSpan } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  compose,
  type EnvFailure,
  envFailure,
  type HistoryAction,
  type HistoryPrompt,
  TemplateTransform,
  type TemplateTransformOptions,
  type TextEntries,
  Tokenizer,
  type TokenPrompt,
  type Transform,
  transform,
} from 'tandem-rl'
import { endedRows } from 'tandem-rl/envs'
import {
  concat,
  type Data,
  type DeepMerge,
  data,
  dataSpec,
  findData,
  get,
  merge,
  type Ragged,
  ragged,
  raggedRow,
  raggedSpec,
  select,
  TensorDict,
  take,
} from 'tandem-rl/tensordict'
import { AGENT_TEMPLATE_OPTIONS } from '../optionKinds.js'

/** The text side of an agent's model. */
export interface AgentSpeech extends Pick<TemplateTransformOptions, 'template' | 'endOfTurn' | 'otherEnds'> {
  readonly tokenizer: TextTokenizer
}

export interface AgentTemplateOptions {
  /** The speech of all agents, or of each agent by its name. */
  readonly speech: AgentSpeech | { readonly byAgent: Readonly<Record<string, AgentSpeech>> }
  /**
   * `continued`: the prompt of an agent continues the tokens of its earlier turns. `fresh`: each
   * prompt is rendered from scratch, for views that show only one turn (`GameEnv` with `memory:
   * 'turn'`). Default `continued`.
   */
  readonly prompts?: 'continued' | 'fresh'
}

/** The prompt of an agent's last turn and its reply, which its next prompt continues. */
interface Thread {
  readonly history: History
  readonly text: string
  readonly spans: readonly TextSpan[]
  readonly plainText: readonly TextRange[]
  readonly ids: readonly number[]
  readonly tokenSpans: readonly TokenSpan[]
  readonly response: string
  readonly sampled: readonly number[]
}

type Threads = Readonly<Record<string, Thread>>

type Tokens = DeepMerge<TextEntries, TokenPrompt>
type Wanted = HistoryPrompt & { readonly agent: Data<string> }
type TokenResponse = { readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }> }
type TextResponse = { readonly text: TensorDict<{ readonly response: Data<string> }> }
type Speaker = Transform<readonly [null, null], HistoryPrompt, Tokens, unknown, TokenResponse>

const NAME = 'agentTemplate'

/** A key for rendering and encoding, which use no randomness. */
const UNUSED_KEY = keyFromSeed(0)

/** The entry of the data that transforms keep between steps. Collected rows do not have it. */
const TRANSFORMS = 'transforms'

/** The entry with the threads of agents that are waiting for their turn. */
const THREADS = 'agentThreads'

/** Returns the state before a turn of the thread's agent, and the action of that turn. */
const turnOf = (thread: Thread): { readonly previous: TensorDict; readonly action: TensorDict } => ({
  previous: TensorDict(
    {
      history: { prompt: data([thread.history]) },
      text: { prompt: data([thread.text]), spans: data([thread.spans]), plainText: data([thread.plainText]) },
      tokens: { prompt: ragged('int32', [thread.ids]), spans: data([thread.tokenSpans]) },
    },
    [1],
  ),
  action: TensorDict(
    { text: { response: data([thread.response]) }, tokens: { response: ragged('int32', [thread.sampled]) } },
    [1],
  ),
})

/** Returns the thread of the agent that acted in a step. */
const threadOf = (state: TensorDict, action: TensorDict, i: number): Thread => {
  const [before, acted] = [
    state as TensorDict<DeepMerge<Tokens, HistoryPrompt>>,
    action as TensorDict<DeepMerge<TextResponse, TokenResponse>>,
  ] // from `adds` and `inverse`
  const text = get(before, 'text')
  return {
    history: get(before, 'history', 'prompt').items.get(i)!,
    text: get(text, 'prompt').items.get(i)!,
    spans: get(text, 'spans').items.get(i)!,
    plainText: get(text, 'plainText').items.get(i)!,
    ids: Array.from(raggedRow(get(before, 'tokens', 'prompt'), i)),
    tokenSpans: get(before, 'tokens', 'spans').items.get(i)!,
    response: get(acted, 'text', 'response').items.get(i)!,
    sampled: Array.from(raggedRow(get(acted, 'tokens', 'response'), i)),
  }
}

/** Renders the prompt of one element's agent, from the beginning or as a continuation. */
const readOne = (
  speaker: Speaker,
  history: History,
  { thread, isDone }: { readonly thread: Thread | undefined; readonly isDone: boolean },
): TE.TaskEither<EnvFailure, TensorDict<Tokens>> => {
  const prompt = TensorDict({ history: { prompt: data([history]) } }, [1])
  if (thread === undefined) {
    return pipe(
      speaker.reset(prompt, speaker.initial, UNUSED_KEY),
      TE.map(([added]) => added),
    )
  }
  if (history.messages.size <= thread.history.messages.size) {
    return TE.left(envFailure(NAME, 'the view of the agent does not contain what it wrote'))
  }
  return async () => {
    const done = tf.tensor1d([isDone ? 1 : 0], 'bool')
    const next = merge(prompt, TensorDict({ done }, [1])) as TensorDict<HistoryPrompt> // including whether it has ended
    const added = await speaker.step(next, turnOf(thread), speaker.initial)()
    discard(done)
    return E.map(([tokens]: readonly [TensorDict<Tokens>, unknown]) => tokens)(added)
  }
}

const speakerOf = ({ template, endOfTurn, otherEnds = [], tokenizer }: AgentSpeech): Speaker =>
  compose(TemplateTransform({ template, endOfTurn, otherEnds }), Tokenizer({ tokenizer }))

/** Makes a function that returns the speaker of an agent. Agents of one speech share a speaker. */
const speakersOf = ({ speech }: AgentTemplateOptions): ((agent: string) => Speaker | undefined) => {
  if (!('byAgent' in speech)) {
    const everyone = speakerOf(speech)
    return () => everyone
  }
  const each = new Map(Object.entries(speech.byAgent).map(([agent, own]) => [agent, speakerOf(own)]))
  return (agent) => each.get(agent)
}

const noSpeech = (agent: string): EnvFailure => envFailure(NAME, `there is no speech for the agent '${agent}'`)

/**
 * Joins the results of all elements into one batch, or returns the first failure with its index.
 */
const joinAll = async <S>(
  size: number,
  one: (i: number) => TE.TaskEither<EnvFailure, TensorDict<S>>,
): Promise<E.Either<EnvFailure, TensorDict<S>>> => {
  const parts: TensorDict<S>[] = []
  for (let i = 0; i < size; i++) {
    const part = await one(i)()
    if (E.isLeft(part)) return E.left(envFailure(NAME, `element ${i}: ${part.left.reason}`, part.left.cause))
    parts.push(part.right)
  }
  return E.right(concat(parts))
}

const threadsIn = (td: TensorDict): readonly Threads[] | undefined => findData<Threads>(td, [TRANSFORMS, THREADS]) // written only here

/** Adds the threads to the tokens. */
const withThreads = (tokens: TensorDict<Tokens>, threads: readonly Threads[]): TensorDict<Tokens> =>
  merge(tokens, TensorDict({ [TRANSFORMS]: { [THREADS]: data(threads) } }, tokens.batchShape)) as TensorDict<Tokens> // besides threads

/** Returns the text and tokens of one element of a state. */
const tokensAt = (state: TensorDict, i: number): TensorDict<Tokens> =>
  take(select(state, 'text', 'tokens') as TensorDict<Tokens>, [i]) // added by `reset` or the previous step

/**
 * Applies `TemplateTransform` and `Tokenizer` to conversations of several agents that take turns.
 * Each agent continues the tokens that it has read and sampled itself, whichever agents wrote in
 * between. Agents with different models have their own template and tokenizer.
 *
 * `text` and `tokens` belong to the agent whose turn it is. Sampled tokens are never encoded again:
 * the next prompt of an agent is its previous prompt, the tokens it sampled, and the messages added
 * since. Messages of other agents are read as text, like those of users, and are never trained.
 *
 * Errors   `Left(EnvFailure)` for an agent without a speech, if a template rejects a view, or if a
 *          view does not begin with the agent's previous view.
 * Cost     renders the agent's whole view in each step.
 * Source   none in TorchRL; the token-first rule of `TemplateTransform`.
 */
export const agentTemplate = (
  options: AgentTemplateOptions,
): Transform<null, Wanted, Tokens, DeepMerge<TextResponse, HistoryAction>, TokenResponse> => {
  checkOptions('agentTemplate', options, AGENT_TEMPLATE_OPTIONS)
  const { speech, prompts = 'continued' } = options
  const everyone = 'byAgent' in speech ? undefined : speakerOf(speech)
  const speakers = speakersOf(options)
  const agentsOf = (td: TensorDict): readonly string[] => get(td as TensorDict<Wanted>, 'agent').items.toArray() // needed of the state
  /**
   * Renders the first prompts of the agents. Elements with the same speech are rendered together.
   */
  const readFresh = (td: TensorDict<Wanted>): TE.TaskEither<EnvFailure, TensorDict<Tokens>> => {
    if (everyone !== undefined)
      return pipe(
        everyone.reset(td, everyone.initial, UNUSED_KEY),
        TE.map(([added]) => added),
      )
    const [agents, histories] = [agentsOf(td), get(td, 'history', 'prompt').items]
    return () =>
      joinAll(agents.length, (i) => {
        const speaker = speakers(agents[i]!)
        if (speaker === undefined) return TE.left(noSpeech(agents[i]!))
        return readOne(speaker, histories.get(i)!, { thread: undefined, isDone: false })
      })
  }
  return transform<null, Wanted, Tokens, DeepMerge<TextResponse, HistoryAction>, TokenResponse>({
    name: NAME,
    initial: null,
    needs: {
      observation: { agent: dataSpec<string>('string'), history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    adds: {
      text: {
        prompt: dataSpec<string>('string'),
        spans: dataSpec<readonly TextSpan[]>('TextSpan[]'),
        plainText: dataSpec<readonly TextRange[]>('TextRange[]'),
      },
      tokens: { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') },
    },
    takes: { removes: { history: {} }, adds: { tokens: { response: raggedSpec('int32') } } },
    reset: (td) => async () => {
      const agents = agentsOf(td)
      const read = await readFresh(td)()
      return E.map(
        (tokens: TensorDict<Tokens>) =>
          [
            withThreads(
              tokens,
              agents.map(() => ({})),
            ),
            null,
          ] as const,
      )(read)
    },
    step:
      (next, { previous, action }) =>
      async () => {
        if (prompts === 'fresh') {
          const none = (tokens: TensorDict<Tokens>) => [tokens, null] as const
          return E.map(none)(await readFresh(next)())
        }
        const [writers, agents, histories] = [agentsOf(previous), agentsOf(next), get(next, 'history', 'prompt').items]
        const [before, over] = [threadsIn(previous), endedRows(previous, 'done')]
        const threads = writers.map((writer, i): Threads => {
          const known = before?.[i] ?? {}
          return over[i] === true ? known : { ...known, [writer]: threadOf(previous, action, i) }
        })
        const done = endedRows(next, 'done')
        const read = await joinAll(agents.length, (i) => {
          if (over[i] === true) return TE.right(tokensAt(previous, i))
          const agent = agents[i]!
          const speaker = speakers(agent)
          if (speaker === undefined) return TE.left(noSpeech(agent))
          return readOne(speaker, histories.get(i)!, { thread: threads[i]![agent], isDone: done[i] === true })
        })
        return E.map((tokens: TensorDict<Tokens>) => [withThreads(tokens, threads), null] as const)(read)
      },
    inverse: (action, td) => {
      if (everyone !== undefined) return everyone.inverse(action, td as never) as never // it reads only the action, and adds what both of its halves add
      const parts: TensorDict<DeepMerge<TextResponse, HistoryAction>>[] = []
      for (const [i, agent] of agentsOf(td).entries()) {
        const speaker = speakers(agent)
        if (speaker === undefined) return E.left(noSpeech(agent))
        const ids = raggedRow(get(action, 'tokens', 'response'), i)
        const result = speaker.inverse(
          TensorDict({ tokens: { response: ragged('int32', [ids]) } }, [1]),
          tokensAt(td, i),
        )
        if (E.isLeft(result)) return result
        parts.push(result.right as (typeof parts)[number]) // added by both halves of a speaker
      }
      return E.right(concat(parts))
    },
  })
}
