/** Curves over steps: smoothing, a crosshair that all charts of a view share, and marks. */
import { h } from './dom.js'
import { number } from './format.js'
import uPlot from './uPlot.esm.js'

const colors = new Map()

/**
 * Returns the value of a color of the theme, which a canvas can use.
 *
 * @param {string} name such as `--c0`
 */
const themeColor = (name) => {
  const known = colors.get(name)
  if (known !== undefined) return known
  const probe = h('span', { style: { color: `var(${name})` } })
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  colors.set(name, color)
  return color
}

const forget = () => colors.clear()
document.addEventListener('theme', forget)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  forget()
  document.dispatchEvent(new Event('theme'))
})

/**
 * Smooths values with an exponential moving average without bias at the start. Missing values stay
 * missing.
 *
 * @param {readonly (number | null)[]} values
 * @param {number} weight of the past, from 0 to below 1
 */
const smoothed = (values, weight) => {
  let mean = 0
  let total = 0
  return values.map((value) => {
    if (value === null || value === undefined) return null
    mean = weight * mean + (1 - weight) * value
    total = weight * total + (1 - weight)
    return mean / total
  })
}

/** @typedef {{ label: string, values: readonly (number | null)[], color: string }} Curve */

/**
 * Describes a curve in words.
 *
 * @param {Curve} curve
 * @param {readonly number[]} steps
 */
const spoken = ({ label, values }, steps) => {
  const known = values.flatMap((value, i) => (value === null || value === undefined ? [] : [[steps[i], value]]))
  if (known.length === 0) return `${label}: no values`
  const [first, last] = [known[0], known[known.length - 1]]
  return `${label}: ${number(first[1])} at step ${first[0]}, ${number(last[1])} at step ${last[0]}`
}

const axes = (grid) => [
  {
    stroke: () => themeColor('--muted'),
    grid: { show: false },
    ticks: { stroke: () => themeColor('--line'), size: 4 },
    font: '11px system-ui, sans-serif',
    size: 26,
    gap: 4,
  },
  {
    stroke: () => themeColor('--muted'),
    grid: { stroke: () => themeColor('--line'), width: grid },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
    size: 52,
    gap: 6,
    space: 34,
    values: (_, splits) => splits.map((value) => number(value)),
  },
]

/** The range of the y axis. Values that are equal but for rounding get a range around them. */
const rangeOf = (_, low, high) => {
  if (low === null || high === null) return [0, 1]
  const size = Math.max(Math.abs(low), Math.abs(high))
  if (high - low > Math.max(1e-5 * size, 1e-12)) return uPlot.rangeNum(low, high, 0.1, true)
  const margin = size < 1e-12 ? 1 : 0.1 * size
  return [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin]
}

/** Series of a chart: the recorded values, faint when a smoothed line is drawn over them. */
const seriesOf = (curves, smoothing) =>
  curves.flatMap(({ label, color }) => {
    const line = (name, alpha, width) => ({
      label: name,
      stroke: () => themeColor(color),
      alpha,
      width,
      spanGaps: true,
      points: { size: 5, fill: () => themeColor(color) },
    })
    return smoothing > 0
      ? [line(label, 0.28, 1), { ...line(`${label} (smoothed)`, 1, 2), points: { show: false } }]
      : [line(label, 1, 1.75)]
  })

const dataOf = (steps, curves, smoothing) => [
  steps,
  ...curves.flatMap(({ values }) => (smoothing > 0 ? [values, smoothed(values, smoothing)] : [values])),
]

/** Draws marks, such as alarms, as links at the top of the chart. */
const placeMarks = (u, marks) => {
  u.over.querySelectorAll('.mark').forEach((each) => each.remove())
  for (const { step, label, href } of marks) {
    const left = u.valToPos(step, 'x')
    if (left < 0 || left > u.over.clientWidth) continue
    u.over.append(h('a', { class: 'mark', href, title: label, 'aria-label': label, style: { left: `${left}px` } }, '!'))
  }
}

/**
 * Makes a chart in a figure.
 *
 * @param {object} options
 * @param {string} options.title
 * @param {readonly number[]} options.steps
 * @param {readonly Curve[]} options.curves
 * @param {number} [options.smoothing]
 * @param {readonly { step: number, label: string, href: string }[]} [options.marks]
 * @param {string} [options.group] charts of the same group share the crosshair and the zoom
 * @param {number} [options.height]
 * @param {(step: number) => void} [options.onStep] called for a click on a step
 * @param {AbortSignal} options.signal
 */
export const chart = (options) => {
  const { title, group = 'charts', height = 150, marks = [], onStep, signal } = options
  let { steps, curves, smoothing = 0 } = options
  /** @type {uPlot | null} */
  let u = null
  const shown = h('output', { class: 'reading' })
  const host = h('div', { class: 'plot', style: { height: `${height}px` } })
  const figure = h(
    'figure',
    { class: 'chart', tabindex: '0', 'data-own-keys': '' },
    h('figcaption', {}, h('span', { class: 'name' }, title), shown),
    host,
  )
  const read = (index) => {
    const at = index ?? steps.length - 1
    const parts = curves.map(({ values, color, label }) =>
      h('span', { style: { color: `var(${color})` }, title: label }, number(values[at])),
    )
    shown.replaceChildren(...(index === null ? [] : [h('span', { class: 'muted' }, `step ${steps[at]}`)]), ...parts)
  }
  const describe = () =>
    figure.setAttribute('aria-label', `${title}. ${curves.map((curve) => spoken(curve, steps)).join('; ')}`)
  const build = () => {
    u?.destroy()
    const width = Math.max(80, host.clientWidth)
    u = new uPlot(
      {
        width,
        height,
        padding: [14, 14, 0, 0],
        legend: { show: false },
        scales: { x: { time: false }, y: { range: rangeOf } },
        axes: axes(1),
        cursor: {
          y: false,
          sync: { key: group, scales: ['x', null] },
          drag: { x: true, y: false },
          points: { size: 7 },
        },
        series: [{}, ...seriesOf(curves, smoothing)],
        hooks: { setCursor: [(self) => read(self.cursor.idx ?? null)], draw: [(self) => placeMarks(self, marks)] },
      },
      dataOf(steps, curves, smoothing),
      host,
    )
  }
  const pick = (at) => {
    if (u !== null && at !== null && at !== undefined) onStep?.(steps[at])
  }
  const move = (by) => {
    if (u === null) return
    const at = Math.min(steps.length - 1, Math.max(0, (u.cursor.idx ?? steps.length - 1) + by))
    u.setCursor({ left: u.valToPos(steps[at], 'x'), top: 10 }, true, true)
  }
  figure.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowLeft') move(-1)
    else if (event.key === 'ArrowRight') move(1)
    else if (event.key === 'Enter' && event.target === figure) pick(u?.cursor.idx)
    else return
    event.preventDefault()
  })
  let downAt = 0
  host.addEventListener('pointerdown', (event) => {
    downAt = event.clientX
  })
  host.addEventListener('click', (event) => {
    if (Math.abs(event.clientX - downAt) < 4 && event.target.closest('.mark') === null) pick(u?.cursor.idx)
  })
  const resized = new ResizeObserver(() => {
    if (u !== null && host.clientWidth > 0 && host.clientWidth !== u.width)
      u.setSize({ width: host.clientWidth, height })
  })
  const seen = new IntersectionObserver(
    (entries) => {
      if (u === null && entries.some((entry) => entry.isIntersecting)) build()
    },
    { rootMargin: '400px' },
  )
  seen.observe(host)
  resized.observe(host)
  const redraw = () => u?.redraw(false)
  document.addEventListener('theme', redraw, { signal })
  signal.addEventListener('abort', () => {
    seen.disconnect()
    resized.disconnect()
    u?.destroy()
  })
  read(null)
  describe()
  return {
    element: figure,
    /** @param {{ steps?: readonly number[], curves?: readonly Curve[], smoothing?: number }} next */
    update: (next) => {
      const isNewShape =
        (next.smoothing ?? smoothing) > 0 !== smoothing > 0 || (next.curves ?? curves).length !== curves.length
      steps = next.steps ?? steps
      curves = next.curves ?? curves
      smoothing = next.smoothing ?? smoothing
      read(null)
      describe()
      if (u === null) return
      if (isNewShape) build()
      else u.setData(dataOf(steps, curves, smoothing))
    },
  }
}

/**
 * Makes a small curve without axes.
 *
 * @param {readonly (number | null)[]} values
 * @param {string} label
 */
export const sparkline = (values, label) => {
  const known = values.filter((value) => value !== null && value !== undefined)
  const [width, height] = [96, 24]
  const [low, high] = [Math.min(...known), Math.max(...known)]
  const span = high - low || 1
  const points = known.map((value, i) => {
    const x = (i / Math.max(1, known.length - 1)) * (width - 4) + 2
    return `${x.toFixed(1)},${(height - 3 - ((value - low) / span) * (height - 6)).toFixed(1)}`
  })
  return h(
    'svg',
    { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label },
    h('polyline', { points: points.join(' '), fill: 'none', stroke: 'var(--c0)', 'stroke-width': 1.5 }),
  )
}

/**
 * Thins a curve to at most `count` values.
 *
 * @param {readonly (number | null)[]} values
 * @param {number} count
 */
export const thinned = (values, count) =>
  values.length <= count
    ? values
    : Array.from({ length: count }, (_, i) => values[Math.round((i * (values.length - 1)) / (count - 1))])
