/** TorchRL's options of wrappers that have another form here. */

const KEYS = 'the keys of entries are part of the types and cannot be changed: rename the entry instead'

/** Replacements of options, by name without case and underscores. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  [
    'inputmode',
    'a wrapper reads token ids. For conversations use historyPolicy({ policy, tokenizer, template }); for text, put Tokenizer around the environment',
  ],
  [
    'numsamples',
    'one row has one completion. Set repeats of the environment, or repeat rows with repeatInterleave: neighbours with equal prompts share their computation',
  ],
  ['returnlogprobs', 'every action has the log-probabilities of its tokens'],
  ['prefertokens', 'ids of earlier turns are always kept, and never made from text again'],
  ['padoutput', 'rows are ragged: toPadded pads them'],
  ['inplace', 'TensorDicts are immutable: an action is a new one'],
  ...['inputkey', 'textkey', 'tokenskey', 'maskskey', 'historykey', 'logprobskey', 'attentionkey'].map(
    (name) => [name, KEYS] as const,
  ),
])

/**
 * Refuses TorchRL's options of wrappers that have another form here, in camel case or snake case.
 *
 * Errors   throws RangeError with the form that takes the option's place.
 */
export const refuseOtherForms = (wrapper: string, options: object): void => {
  for (const name of Object.keys(options)) {
    const place = ELSEWHERE.get(name.replaceAll('_', '').toLowerCase())
    if (place !== undefined) throw new RangeError(`${wrapper}: unknown option '${name}': ${place}`)
  }
}
