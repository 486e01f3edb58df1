/** What is known about one token: its values, its probability in every checkpoint, and forks. */
import { isExported, runPath, stream } from './api.js'
import { chart } from './charts.js'
import { announce, fill, h, table } from './dom.js'
import { number } from './format.js'
import { alternatives, tokenFacts } from './heat.js'
import { tokenLabel, tokenText } from './transcript.js'

/** @typedef {import('../../src/view/modelProtocol.ts').ProbabilityRequest} ProbabilityRequest */
/** @typedef {import('../../src/view/modelProtocol.ts').ProbabilityLine} ProbabilityLine */
/** @typedef {import('../../src/view/modelProtocol.ts').ForkRequest} ForkRequest */
/** @typedef {import('../../src/view/modelProtocol.ts').ForkLine} ForkLine */

const factList = (token, which) =>
  h(
    'dl',
    { class: 'token-facts' },
    tokenFacts(token, which).map(([label, value]) => [h('dt', {}, label), h('dd', {}, value)]),
  )

/** @param {object} token @param {'all' | 'main'} [which] values */
export const tokenCard = (token, which = 'main') =>
  h(
    'div',
    {},
    h('code', { class: 'token-name' }, tokenLabel(token.text)),
    factList(token, which),
    token.top === undefined || token.top.length === 0 ? null : alternatives(token.top, token.text, tokenLabel),
  )

/**
 * Runs an action while its button is disabled, and shows its failure.
 *
 * @param {HTMLButtonElement} button
 * @param {Element} output
 * @param {() => Promise<void>} action
 */
export const busy = async (button, output, action) => {
  button.disabled = true
  output.setAttribute('aria-busy', 'true')
  try {
    await action()
  } catch (error) {
    if (error.name !== 'AbortError') output.append(h('p', { class: 'error', role: 'alert' }, error.message))
  } finally {
    button.disabled = false
    output.removeAttribute('aria-busy')
  }
}

/**
 * Draws the lines of a probability request: a curve over checkpoints and a table.
 *
 * @param {readonly object[]} lines
 * @param {AbortSignal} signal
 */
export const drawProbability = (lines, signal) => {
  const sorted = [...lines].sort((a, b) => a.step - b.step)
  const steps = sorted.map(({ step }) => step)
  const curve = (label, color, values) => ({ label, color, values })
  const probability = chart({
    title: 'Probability by checkpoint',
    steps,
    curves: [
      curve(
        'token',
        '--c0',
        sorted.map(({ logProb }) => Math.exp(logProb)),
      ),
    ],
    group: 'checkpoints',
    height: 120,
    signal,
  })
  const logProbs = chart({
    title: 'Log-prob: token, and the turn up to it',
    steps,
    curves: [
      curve(
        'token',
        '--c0',
        sorted.map(({ logProb }) => logProb),
      ),
      curve(
        'turn up to the token',
        '--c1',
        sorted.map(({ prefixLogProb }) => prefixLogProb),
      ),
    ],
    group: 'checkpoints',
    height: 120,
    signal,
  })
  const rows = sorted.map((line) => [
    { value: line.step, class: 'num' },
    { value: `${(100 * Math.exp(line.logProb)).toFixed(2)} %`, class: 'num' },
    { value: line.rank + 1, class: 'num' },
    { value: number(line.entropy), class: 'num' },
    line.top
      .slice(0, 4)
      .map((each) => [
        h('code', {}, tokenLabel(each.text)),
        h('span', { class: 'muted' }, ` ${(100 * Math.exp(each.logProb)).toFixed(0)} % `),
      ]),
  ])
  const numeric = (value) => ({ value, class: 'num' })
  return h(
    'div',
    { class: 'stack' },
    probability.element,
    logProbs.element,
    table(
      [...['Step', 'Probability', 'Rank', 'Entropy'].map(numeric), 'Most likely'],
      rows,
      'Probability by checkpoint',
    ),
  )
}

const probabilityPart = (run, place, signal) => {
  const output = h('div', { 'aria-live': 'polite' })
  const button = h('button', { class: 'primary' }, 'Why did this token move?')
  const ask = () =>
    busy(button, output, async () => {
      const lines = []
      fill(output, h('p', { class: 'muted small' }, 'Loading checkpoints …'))
      const draw = () => fill(output, drawProbability(lines, signal))
      await stream(
        `${runPath(run.id)}/probability`,
        place,
        (line) => {
          lines.push(line)
          draw()
        },
        signal,
      )
    })
  button.addEventListener('click', ask)
  return { button, output, ask }
}

const forkPart = (run, place, token, signal) => {
  const input = (label, value, min, max, step = 1) => ({
    label,
    element: h('input', { type: 'number', value: String(value), min, max, step }),
  })
  const [count, tokens, temperature, seed] = [
    input('Completions', 4, 1, 64),
    input('New tokens', 64, 1, 4096),
    input('Temperature', 1, 0, 4, 0.1),
    input('Seed', 1, 0, 2 ** 31),
  ]
  const replacement = h('input', { placeholder: 'sample it', 'aria-label': 'Text in the place of the token' })
  const output = h('ol', { class: 'forks', 'aria-live': 'polite' })
  const button = h('button', { class: 'primary', type: 'submit' }, 'Fork here')
  const submit = (event) => {
    event.preventDefault()
    busy(button, output, async () => {
      fill(output)
      const body = {
        ...place,
        count: Number(count.element.value),
        maxNewTokens: Number(tokens.element.value),
        temperature: Number(temperature.element.value),
        seed: Number(seed.element.value),
        ...(replacement.value === '' ? {} : { replacement: replacement.value }),
      }
      await stream(
        `${runPath(run.id)}/fork`,
        body,
        (line) => {
          if (line.type === 'completion') output.append(forkItem(line))
        },
        signal,
      )
    })
  }
  return h(
    'details',
    { class: 'fork' },
    h('summary', {}, 'Fork the rollout here'),
    h(
      'p',
      { class: 'muted small' },
      'Samples on from the text before ',
      h('code', {}, tokenLabel(token.text)),
      ' with the nearest checkpoint.',
    ),
    h(
      'form',
      { class: 'tools', onsubmit: submit },
      [count, tokens, temperature, seed].map(({ label, element }) => h('label', {}, label, element)),
      h('label', {}, 'Replace by', replacement),
      button,
    ),
    output,
  )
}

const forkItem = (line) =>
  h(
    'li',
    {},
    h(
      'header',
      {},
      h('strong', {}, line.reward === null ? `Completion ${line.index + 1}` : `Reward ${number(line.reward)}`),
      h('span', { class: 'muted small' }, `${line.tokens.length} tokens · ${line.stopReason}`),
    ),
    h('div', { class: 'text', dir: 'ltr' }, tokenText(line.text)),
  )

/**
 * Makes the panel of one token.
 *
 * @param {object} run
 * @param {{ rollout: string, turn: number, token: number }} place
 * @param {object} token
 * @param {AbortSignal} signal
 */
export const inspector = (run, place, token, signal) => {
  const can = (feature) => !isExported && run.features.includes(feature)
  const probability = can('probability') ? probabilityPart(run, place, signal) : null
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href)
      announce('Link copied')
    } catch {
      announce('The link is in the address bar')
    }
  }
  return {
    ask: probability?.ask,
    element: h(
      'div',
      {},
      h('p', { class: 'muted small' }, `Token ${place.token + 1} of turn ${place.turn + 1}`),
      tokenCard(token, 'all'),
      h('div', { class: 'tools' }, probability?.button, h('button', { onclick: copy }, 'Copy link')),
      probability?.output,
      can('fork') ? forkPart(run, place, token, signal) : null,
    ),
  }
}
