/** Colors of tokens by one of their values, with a legend. */
import { h } from './dom.js'
import { number, signed } from './format.js'

const clamp = (x) => Math.max(0, Math.min(1, x))

const sequential = (color, most, ends) => ({
  strength: (value) => clamp(value / most),
  color: () => color,
  swatches: Array.from({ length: 7 }, (_, i) => [color, i / 6]),
  ends,
})

const diverging = (most, ends) => ({
  strength: (value) => clamp(Math.abs(value) / most),
  color: (value) => (value < 0 ? '--low' : '--high'),
  swatches: [1, 0.66, 0.33, 0, 0.33, 0.66, 1].map((strength, i) => [i < 3 ? '--low' : '--high', strength]),
  ends,
})

/** Size of a gap from 0 at 1e-6 nats to 1 at 1 nat, on a logarithmic scale. */
const gapSize = (gap) => (gap <= 1e-6 ? 0 : (Math.log10(gap) + 6) / 6)

const present = (value, then) => (value === undefined || value === null ? null : then(value))

const VERSION_COLORS = 8

/** The colorings of tokens: the value of a token, or null, and its appearance. */
export const HEATS = {
  logProb: {
    label: 'Log-prob',
    of: (token) => present(token.logProb, (value) => -value),
    ...sequential('--warm', 5, ['certain', '5 nats or more']),
  },
  entropy: {
    label: 'Entropy',
    of: (token) => present(token.entropy, Number),
    ...sequential('--cool', 2.5, ['0', '2.5 nats or more']),
  },
  advantage: {
    label: 'Advantage',
    of: (token) => present(token.advantage, Number),
    ...diverging(1.5, ['−1.5', '+1.5']),
  },
  ratio: { label: 'Ratio', of: (token) => present(token.ratio, Math.log), ...diverging(0.25, ['× 0.78', '× 1.28']) },
  gap: {
    label: 'Sampler–trainer gap',
    of: (token) =>
      token.trainerLogProb === undefined || token.logProb === undefined
        ? null
        : gapSize(Math.abs(token.trainerLogProb - token.logProb)),
    ...sequential('--pink', 1, ['1e-6', '1 nat']),
  },
  clipped: {
    label: 'Clipped',
    of: (token) => present(token.clipped, Number),
    ...sequential('--low', 1, ['no', 'clipped']),
  },
  mask: {
    label: 'Loss mask',
    of: (token) => present(token.mask, (value) => 1 - Number(value)),
    ...sequential('--c4', 1, ['learned', 'masked out']),
  },
  version: {
    label: 'Weights',
    of: (token) => present(token.version, Number),
    strength: () => 0.8,
    color: (value) => `--c${value % VERSION_COLORS}`,
    swatches: [],
    ends: ['by version of the weights', ''],
  },
}

/**
 * Returns the names of the heats for which any token has a value.
 *
 * @param {readonly object[]} tokens
 */
export const heatsIn = (tokens) =>
  Object.keys(HEATS).filter((name) => tokens.some((token) => HEATS[name].of(token) !== null))

/**
 * Colors the element of a token.
 *
 * @param {HTMLElement} element
 * @param {object} token
 * @param {string | null} name of the heat, null for none
 */
export const paintToken = (element, token, name) => {
  const value = name === null ? null : HEATS[name].of(token)
  if (value === null) {
    element.style.removeProperty('--q')
    return
  }
  const heat = HEATS[name]
  element.style.setProperty('--q', `${(heat.strength(value) * 46).toFixed(1)}%`)
  element.style.setProperty('--heat', `var(${heat.color(value)})`)
}

/** @param {string | null} name */
export const legendOf = (name) => {
  if (name === null) return h('span', { class: 'heat-legend muted small' }, 'No colors')
  const { swatches, ends, label } = HEATS[name]
  return h(
    'span',
    { class: 'heat-legend small', role: 'img', 'aria-label': `${label}: ${ends[0]} to ${ends[1]}` },
    h('span', { class: 'muted' }, ends[0]),
    swatches.map(([color, strength]) =>
      h('i', { class: 'tok', style: { '--heat': `var(${color})`, '--q': `${strength * 46}%` } }),
    ),
    h('span', { class: 'muted' }, ends[1]),
  )
}

const FIELDS = [
  ['logProb', 'Log-prob', (value) => `${number(value)} (${(100 * Math.exp(value)).toFixed(2)} %)`],
  ['trainerLogProb', 'Log-prob of the trainer', number],
  ['entropy', 'Entropy', (value) => `${number(value)} nats`],
  ['ratio', 'Ratio', (value) => value.toFixed(4)],
  ['advantage', 'Advantage', signed],
  ['clipped', 'Clipped', (value) => (value ? 'yes' : 'no')],
  ['mask', 'In the loss', (value) => (value ? 'yes' : 'no')],
  ['version', 'Version of the weights', String],
  ['id', 'Token', String],
]

const MINOR = new Set(['id', 'version', 'trainerLogProb'])

const isMinor = (name, token) => MINOR.has(name) || USUAL[name] === token[name]

const USUAL = { mask: true, clipped: false }

/**
 * Returns the values of a token as labels and texts.
 *
 * @param {object} token
 * @param {'all' | 'main'} which all values, or without identifiers and what is as usual
 */
export const tokenFacts = (token, which) => {
  const gap =
    token.trainerLogProb === undefined || token.logProb === undefined
      ? null
      : Math.abs(token.trainerLogProb - token.logProb)
  return [
    ...FIELDS.flatMap(([name, label, format]) =>
      token[name] === undefined || token[name] === null || (which === 'main' && isMinor(name, token))
        ? []
        : [[label, format(token[name])]],
    ),
    ...(gap === null ? [] : [['Sampler–trainer gap', `${number(gap)} nats`]]),
  ]
}
