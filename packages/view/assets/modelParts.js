/** The parts that all requests about checkpoints share: their fields, progress, errors and stop. */
import { runPath, stream } from './api.js'
import { chart } from './charts.js'
import { fill, h, table } from './dom.js'
import { number } from './format.js'
import { tokenLabel } from './transcript.js'

/** @typedef {import('../src/modelProtocol.ts').ProbabilityLine} ProbabilityLine */

/** @param {object} run @param {string} feature */
export const can = (run, feature) => run.features.includes(feature)

/** @param {unknown} value of a cell with a number */
export const numeric = (value) => ({ value, class: 'num' })

/** @param {number} step of a checkpoint */
export const checkpointName = (step) => (step === 0 ? 'initial weights' : `step ${step}`)

/**
 * Makes a choice of the initial weights or a checkpoint.
 *
 * @param {object} run
 * @param {string} label
 * @param {number} chosen
 */
export const checkpointField = (run, label, chosen) => {
  const select = h(
    'select',
    {},
    [0, ...run.checkpoints].map((step) =>
      h('option', { value: String(step), selected: step === chosen }, checkpointName(step)),
    ),
  )
  return { element: h('label', {}, label, select), value: () => Number(select.value) }
}

/**
 * Makes a field for a number.
 *
 * @param {string} label
 * @param {number | ''} value
 * @param {Record<string, unknown>} limits `min`, `max` and `step`
 */
export const numberField = (label, value, limits) => {
  const input = h('input', { type: 'number', value: String(value), ...limits })
  return { element: h('label', {}, label, input), value: () => (input.value === '' ? undefined : Number(input.value)) }
}

/** The checkpoint whose weights sampled a rollout, or the nearest one before it. */
export const checkpointBefore = (run, version) =>
  run.checkpoints.findLast((step) => version !== null && step <= version) ?? 0

/**
 * Makes the place of an answer: what the server does, a button that stops it, and the result.
 * Leaving the view stops it, too.
 *
 * @param {object} options
 * @param {object} options.run
 * @param {string} options.request the last part of the address
 * @param {HTMLButtonElement} options.button disabled while the request runs
 * @param {AbortSignal} signal of the view
 */
export const answerPlace = ({ run, request, button }, signal) => {
  const result = h('div', { class: 'stack' })
  const state = h('div', { class: 'asked', role: 'status' })
  const ask = async (body, take) => {
    const scope = new AbortController()
    const stop = () => scope.abort()
    signal.addEventListener('abort', stop)
    button.disabled = true
    const message = h('span', { class: 'muted small' }, 'Starting …')
    fill(state, message, h('button', { class: 'quiet', type: 'button', onclick: stop }, 'Stop'))
    fill(result)
    const line = (each) => {
      if (each.type === 'progress') message.textContent = `${each.message} …`
      else take(each)
    }
    try {
      await stream(`${runPath(run.id)}/${request}`, body, line, scope.signal)
      fill(state)
    } catch (error) {
      if (scope.signal.aborted) fill(state, h('span', { class: 'muted small' }, 'Stopped.'))
      else fill(state, h('p', { class: 'error', role: 'alert' }, error.message))
    } finally {
      button.disabled = false
      signal.removeEventListener('abort', stop)
    }
  }
  return { element: h('div', { class: 'stack answer' }, state, result), result, ask }
}

/** Alternatives below half a percent are not shown. */
const SHOWN = Math.log(0.005)

/**
 * Draws a token's probability by checkpoint: a curve, and a table with the alternatives.
 *
 * @param {readonly ProbabilityLine[]} lines
 * @param {AbortSignal} signal
 */
export const drawProbability = (lines, signal) => {
  const steps = lines.map(({ step }) => step)
  const plot = (title, curves) => chart({ title, steps, curves, group: 'checkpoints', height: 120, signal }).element
  const curve = (label, color, of) => ({ label, color, values: lines.map(of) })
  const rows = lines.map((line) => [
    numeric(line.step),
    numeric(`${(100 * Math.exp(line.logProb)).toFixed(2)} %`),
    numeric(line.rank),
    line.top
      .filter(({ logProb }, i) => i === 0 || logProb > SHOWN)
      .slice(0, 4)
      .map((each) => [
        h('code', {}, tokenLabel(each.text)),
        h('span', { class: 'muted' }, ` ${(100 * Math.exp(each.logProb)).toFixed(0)} % `),
      ]),
  ])
  return [
    plot('Probability by checkpoint', [curve('token', '--c0', ({ logProb }) => Math.exp(logProb))]),
    plot('Log-prob: token, and turn up to it', [
      curve('token', '--c0', ({ logProb }) => logProb),
      curve('turn up to the token', '--c1', ({ prefixLogProb }) => prefixLogProb),
    ]),
    table([...['Step', 'Probability', 'Rank'].map(numeric), 'Most likely'], rows, 'Probability by checkpoint'),
  ]
}

/**
 * Makes bars of the most likely tokens.
 *
 * @param {{ text: string, top: readonly { text: string, logProb: number }[] }} token
 */
export const alternatives = ({ text: chosen, top }) =>
  h(
    'ol',
    { class: 'alternatives' },
    top.map(({ text, logProb }) => {
      const share = 100 * Math.exp(logProb)
      return h(
        'li',
        { 'aria-current': text === chosen ? 'true' : null },
        h('code', {}, tokenLabel(text)),
        h('span', { class: 'share' }, h('i', { style: { width: `${share}%` } })),
        h('span', { class: 'num' }, `${share.toFixed(1)} %`),
      )
    }),
  )
