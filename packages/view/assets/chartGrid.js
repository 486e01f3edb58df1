/** A grid of charts with a search for metrics and a slider for smoothing. */
import { chart } from './charts.js'
import { fill, h } from './dom.js'

const FIRST = [
  ...['reward', 'evaluation', 'parts.', 'update.loss', 'update.entropy', 'update.klToRef', 'update.gradNorm'],
  ...['update.clipFraction', 'completionTokens', 'truncated', 'update.maxLogProbGap'],
]

const rankOf = (name) => {
  const at = FIRST.findIndex((each) => name === each || (each.endsWith('.') && name.startsWith(each)))
  return at === -1 ? FIRST.length : at
}

/** @param {readonly string[]} names of metrics, the main ones first */
const ordered = (names) =>
  names
    .map((name, i) => ({ name, i }))
    .sort((a, b) => rankOf(a.name) - rankOf(b.name) || a.i - b.i)
    .map(({ name }) => name)

/**
 * Returns a test of names: all words of a text, or the regular expression between slashes. A
 * regular expression that is not complete finds nothing.
 *
 * @param {string} text
 * @returns {(name: string) => boolean}
 */
const matcher = (text) => {
  const [, pattern] = /^\/(.+?)\/?$/.exec(text) ?? []
  if (pattern === undefined) {
    const words = text.toLowerCase().split(/\s+/)
    return (name) => words.every((word) => name.toLowerCase().includes(word))
  }
  try {
    const expression = new RegExp(pattern, 'i')
    return (name) => expression.test(name)
  } catch {
    return () => false
  }
}

const SHOWN = 12
const SMOOTHING = 'tandem-smoothing'

const savedSmoothing = () => {
  try {
    return Number(localStorage.getItem(SMOOTHING) ?? 0)
  } catch {
    return 0
  }
}

const saveSmoothing = (value) => {
  try {
    localStorage.setItem(SMOOTHING, String(value))
  } catch {
    // The choice lasts until the view is closed.
  }
}

/**
 * Makes a grid with one chart per metric.
 *
 * @param {object} options
 * @param {readonly string[]} options.names
 * @param {(name: string) => { steps: readonly number[], curves: readonly import('./charts.js').Curve[] }} options.curvesOf
 * @param {readonly { step: number, label: string, href: string }[]} [options.marks]
 * @param {(step: number) => void} [options.onStep]
 * @param {AbortSignal} options.signal
 */
export const chartGrid = ({ names, curvesOf, marks, onStep, signal }) => {
  const sorted = ordered(names)
  let smoothing = savedSmoothing()
  let isAll = false
  /** @type {Map<string, ReturnType<typeof chart>>} */
  const charts = new Map()
  const chartOf = (name) => {
    const known = charts.get(name)
    if (known !== undefined) return known
    const made = chart({ title: name, ...curvesOf(name), smoothing, marks, onStep, signal })
    charts.set(name, made)
    return made
  }
  const grid = h('div', { class: 'charts' })
  const filter = h('input', { type: 'search', placeholder: 'Find: loss, or /loss|kl$/', 'aria-label': 'Find metrics' })
  const more = h('button', { class: 'quiet' })
  const range = h('input', { type: 'range', min: 0, max: 0.98, step: 0.02, value: String(smoothing) })
  const level = h('output', { class: 'mono small' }, smoothing.toFixed(2))
  const draw = () => {
    const found = sorted.filter(matcher(filter.value))
    const shown = isAll || filter.value !== '' ? found : found.slice(0, SHOWN)
    fill(
      grid,
      shown.map((name) => chartOf(name).element),
    )
    more.hidden = filter.value !== '' || found.length <= SHOWN
    more.textContent = isAll ? 'Show the main metrics' : `Show all ${found.length} metrics`
  }
  filter.addEventListener('input', draw)
  more.addEventListener('click', () => {
    isAll = !isAll
    draw()
  })
  range.addEventListener('input', () => {
    smoothing = Number(range.value)
    level.textContent = smoothing.toFixed(2)
    saveSmoothing(smoothing)
    for (const each of charts.values()) each.update({ smoothing })
  })
  draw()
  return {
    tools: h('span', { class: 'tools' }, filter, h('label', {}, 'Smoothing', range, level)),
    element: h('div', {}, grid, h('div', { class: 'more-row' }, more)),
    /** Draws the curves again from `curvesOf`. */
    refresh: () => {
      for (const [name, each] of charts) each.update(curvesOf(name))
    },
  }
}
