/** The model of the scripted SGLang: eight tokens, and completions in the server's form. */

const SCRIPTED_VOCABULARY = 8

/** Ends completions. */
export const SCRIPTED_END = 7

/** Start options and faults of the server. */
export interface ScriptedForm {
  /** Of 0.5.10 or of 0.5.23. */
  readonly release: 'old' | 'new'
  readonly logProbs: 'edited' | 'tempered'
  readonly frames: 'cumulative' | 'incremental'
}

/** The weights, as far as the model has any. */
interface ScriptedWeights {
  readonly label: string
  readonly shift: number
}

export interface ScriptedParameters {
  readonly max_new_tokens: number
  readonly min_new_tokens?: number
  readonly temperature: number
  readonly ignore_eos?: boolean
  readonly stop_token_ids?: readonly number[]
  readonly sampling_seed?: number
  readonly top_p?: number
  readonly top_k?: number
  readonly min_p?: number
  readonly repetition_penalty?: number
  readonly presence_penalty?: number
  readonly frequency_penalty?: number
  readonly logit_bias?: Readonly<Record<string, number>>
  readonly stop?: readonly string[]
  readonly no_stop_trim?: boolean
}

/** The fields of requests, of all paths. */
export interface ScriptedBody {
  readonly input_ids?: readonly number[] | readonly (readonly number[])[]
  readonly sampling_params?: ScriptedParameters | readonly ScriptedParameters[]
  readonly rid?: string | readonly string[]
  readonly stream?: boolean
  readonly logprob_start_len?: number
  readonly top_logprobs_num?: number
  readonly lora_path?: string
  readonly extra_key?: string
  readonly lora_name?: string
  readonly serialized_named_tensors?: readonly string[]
  readonly serialized_tensors?: string
  readonly expected_checksums?: Readonly<Record<string, string>>
  readonly config_dict?: Readonly<Record<string, unknown>>
  readonly model_path?: string
  readonly weight_version?: string
  readonly flush_cache?: boolean
  readonly mode?: string
  readonly abort_all?: boolean
}

type ScriptedPlace = readonly [logProb: number | null, id: number, text: null]

/** A completion, whole or a frame of it. Tests break it in every way. */
export interface ScriptedItem {
  readonly text: string
  readonly output_ids: readonly number[]
  readonly index?: number
  readonly meta_info: {
    readonly finish_reason: Readonly<Record<string, unknown>> | null
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly cached_tokens: number
    readonly weight_version: string
    readonly weight_versions?: readonly { readonly version: string; readonly start: number; readonly end: number }[]
    readonly input_token_logprobs: readonly ScriptedPlace[]
    readonly input_top_logprobs: readonly (readonly ScriptedPlace[] | null)[]
    readonly output_token_logprobs: readonly ScriptedPlace[]
    readonly output_top_logprobs: readonly (readonly ScriptedPlace[] | null)[]
  }
}

/** Logits of the next token. */
export const scriptedLogits = (previous: number, shift: number): readonly number[] =>
  Array.from({ length: SCRIPTED_VOCABULARY }, (_, id) => Math.sin(3 * previous + 2 * id + shift) * 2)

export const logSoftmax = (logits: readonly number[], temperature: number): readonly number[] => {
  const scaled = logits.map((logit) => logit / temperature)
  const sum = Math.log(scaled.reduce((total, logit) => total + Math.exp(logit), 0))
  return scaled.map((logit) => logit - sum)
}

const placesOf = (logProbs: readonly number[], count: number): readonly ScriptedPlace[] =>
  logProbs
    .map((logProb, id) => [logProb, id, null] as const)
    .sort((a, b) => b[0] - a[0])
    .slice(0, count)

/** One completion that is asked for. */
export interface Asked {
  readonly prompt: readonly number[]
  readonly parameters: ScriptedParameters
  readonly name: string
}

/** The requests in a body, one for each element of a batch. */
export const askedOf = ({
  input_ids: ids = [],
  sampling_params: parameters,
  rid = 'probe',
}: ScriptedBody): readonly Asked[] => {
  const prompts = (typeof ids[0] === 'number' ? [ids] : ids) as readonly (readonly number[])[] // one or the other
  const all = [parameters].flat() as readonly ScriptedParameters[] // the client sends them always
  return prompts.map((prompt, i) => ({ prompt, parameters: all[i]!, name: [rid].flat()[i]! }))
}

const sampled = ({ prompt, parameters }: Asked, logProbsAfter: (id: number) => readonly number[]) => {
  const ids: number[] = []
  const told: (readonly number[])[] = []
  let finish: Readonly<Record<string, unknown>> = { type: 'length', length: parameters.max_new_tokens }
  for (let t = 0; t < parameters.max_new_tokens; t++) {
    const logProbs = logProbsAfter(ids.at(-1) ?? prompt.at(-1)!)
    const drawn = ((parameters.sampling_seed ?? 0) + t * t) % SCRIPTED_VOCABULARY
    const id = parameters.temperature === 0 ? placesOf(logProbs, 1)[0]![1] : drawn
    ids.push(id)
    told.push(logProbs)
    const isEnd = (id === SCRIPTED_END && parameters.ignore_eos !== true) || parameters.stop_token_ids?.includes(id)
    if (isEnd && t + 1 >= (parameters.min_new_tokens ?? 0)) {
      finish = { type: 'stop', matched: id }
      break
    }
  }
  return { ids, told, finish }
}

export interface CompletionState {
  readonly weights: ScriptedWeights
  readonly form: ScriptedForm
  /** Aborted after its first token. */
  readonly aborted: 'yes' | 'no'
}

/** A whole completion in the server's form. */
export const completionOf = (
  body: ScriptedBody,
  asked: Asked,
  { weights, form, aborted }: CompletionState,
): ScriptedItem => {
  const { prompt, parameters } = asked
  const temperature = parameters.temperature === 0 || form.logProbs === 'edited' ? 1 : parameters.temperature
  const after = (id: number, at: number) => logSoftmax(scriptedLogits(id, weights.shift), at)
  const all = sampled(asked, (id) => after(id, temperature))
  const count = aborted === 'yes' ? 1 : all.ids.length
  const [ids, told, tops] = [all.ids.slice(0, count), all.told.slice(0, count), body.top_logprobs_num ?? 0]
  const isScored = body.logprob_start_len === 0
  const rows = prompt.map((_, t) => (t === 0 ? null : after(prompt[t - 1]!, 1)))
  return {
    text: ids.map((id) => String.fromCharCode(97 + id)).join(''),
    output_ids: ids,
    meta_info: {
      finish_reason:
        aborted === 'yes' ? { type: 'abort', message: 'Aborted', status_code: null, err_type: null } : all.finish,
      prompt_tokens: prompt.length,
      completion_tokens: count,
      cached_tokens: prompt.length - 1,
      weight_version: weights.label,
      ...(form.release === 'new' && { weight_versions: [{ version: weights.label, start: 0, end: count }] }),
      input_token_logprobs: isScored ? prompt.map((id, t) => [rows[t]?.[id] ?? null, id, null] as const) : [],
      output_token_logprobs: ids.map((id, t) => [told[t]![id]!, id, null] as const),
      input_top_logprobs: isScored && tops > 0 ? rows.map((row) => (row === null ? null : placesOf(row, tops))) : [],
      output_top_logprobs: tops > 0 ? told.map((row) => placesOf(row, tops)) : [],
    },
  }
}

/** The frames of a stream: a token each, with everything before it or without. */
export const framesOf = (whole: ScriptedItem, { frames }: ScriptedForm): readonly ScriptedItem[] =>
  whole.output_ids.map((_, t) => {
    const from = frames === 'incremental' ? t : 0
    const cut = <T>(list: readonly T[]): readonly T[] => list.slice(from, t + 1)
    const isLast = t + 1 === whole.output_ids.length
    const meta = whole.meta_info
    return {
      text: whole.text.slice(from, t + 1),
      output_ids: cut(whole.output_ids),
      meta_info: {
        ...meta,
        finish_reason: isLast ? meta.finish_reason : null,
        completion_tokens: t + 1,
        output_token_logprobs: cut(meta.output_token_logprobs),
        output_top_logprobs: cut(meta.output_top_logprobs),
        ...(meta.weight_versions && { weight_versions: [{ ...meta.weight_versions[0]!, end: t + 1 }] }),
      },
    }
  })
