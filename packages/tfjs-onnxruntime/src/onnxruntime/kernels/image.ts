/** Resizing of images `[batch, height, width, channels]`, and its gradients. */
import { sizeOf, type Value } from '../graph.js'
import {
  type Emitter,
  flagAttribute,
  integersAttribute,
  isFloat,
  type KernelAttributes,
  type KernelRule,
  type RuleTable,
} from '../rule.js'
import { reshapeValue } from './shape.js'

/** The alignment of the result's pixels with those of the image. */
interface Placement {
  readonly corners: 'aligned' | 'free'
  readonly centers: 'half' | 'whole'
}

const placementOf = (attributes: KernelAttributes): Placement => ({
  corners: flagAttribute(attributes, 'alignCorners') ? 'aligned' : 'free',
  centers: flagAttribute(attributes, 'halfPixelCenters') ? 'half' : 'whole',
})

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** Returns the distance between two pixels of the result, in pixels of the image. */
const scaleOf = (size: number, made: number, { corners }: Placement): number =>
  corners === 'aligned' && made > 1 ? (size - 1) / (made - 1) : size / made

/**
 * Returns the source of each of `made` pixels: the two pixels of the image around it, and its
 * distance from the first.
 */
const between = (
  size: number,
  made: number,
  placement: Placement,
): readonly { readonly low: number; readonly high: number; readonly part: number }[] =>
  range(made).map((i) => {
    const scale = scaleOf(size, made, placement)
    const at = placement.centers === 'half' ? scale * (i + 0.5) - 0.5 : scale * i
    const low = Math.max(0, Math.floor(at))
    return { low, high: Math.min(size - 1, Math.ceil(at)), part: at - low }
  })

/** Returns the pixel of the image that each of `made` pixels copies. */
const nearest = (size: number, made: number, placement: Placement): readonly number[] =>
  range(made).map((i) => {
    const at = scaleOf(size, made, placement) * (placement.centers === 'half' ? i + 0.5 : i)
    return Math.min(size - 1, placement.corners === 'aligned' ? Math.round(at) : Math.floor(at))
  })

/** Creates a matrix that is part of the graph. */
const matrix = (emitter: Emitter, data: Float32Array, shape: readonly number[]): Value => ({
  ...emitter.fixed(0, 'float32'),
  data,
  shape,
})

const select = (emitter: Emitter, value: Value, places: readonly number[], axis: number): Value => {
  const shape = value.shape.map((n, i) => (i === axis ? places.length : n))
  const output = { shape, type: value.type }
  return emitter.emit('Gather', [value, emitter.integers(places)], output, { attributes: { axis } })
}

const stretch = (
  emitter: Emitter,
  value: Value,
  made: number,
  options: Placement & { readonly axis: number },
): Value => {
  const { axis } = options
  const places = between(value.shape[axis]!, made, options)
  const low = select(
    emitter,
    value,
    places.map((place) => place.low),
    axis,
  )
  const high = select(
    emitter,
    value,
    places.map((place) => place.high),
    axis,
  )
  const shape = [made, ...value.shape.slice(axis + 1).map(() => 1)]
  const part = matrix(
    emitter,
    Float32Array.from(places, (place) => place.part),
    shape,
  )
  const rise = emitter.emit('Mul', [emitter.emit('Sub', [high, low], low), part], low)
  return emitter.emit('Add', [low, rise], low)
}

const sizeAttribute = (attributes: KernelAttributes): readonly [number, number] => {
  const [height, width] = integersAttribute(attributes, 'size')
  return [height!, width!]
}

const resizeBilinear: KernelRule = (emitter, { images }, attributes) => {
  const value = emitter.valueOf(images!)
  const [height, width] = sizeAttribute(attributes)
  if (value === undefined || !isFloat(value) || height * width === 0) return undefined
  const placement = placementOf(attributes)
  const wide = stretch(emitter, value, width, { ...placement, axis: 2 })
  return stretch(emitter, wide, height, { ...placement, axis: 1 })
}

const resizeNearest: KernelRule = (emitter, { images }, attributes) => {
  const value = emitter.valueOf(images!)
  const [height, width] = sizeAttribute(attributes)
  if (value === undefined || !isFloat(value) || height * width === 0) return undefined
  const placement = placementOf(attributes)
  const tall = select(emitter, value, nearest(value.shape[1]!, height, placement), 1)
  return select(emitter, tall, nearest(value.shape[2]!, width, placement), 2)
}

/**
 * For an axis: `[size, made]`, the share of each pixel of the image in each pixel of the result.
 */
type Shares = (size: number, made: number, placement: Placement) => Float32Array

const bilinearShares: Shares = (size, made, placement) => {
  const shares = new Float32Array(size * made)
  for (const [i, { low, high, part }] of between(size, made, placement).entries()) {
    shares[low * made + i]! += 1 - part
    shares[high * made + i]! += part
  }
  return shares
}

const nearestShares: Shares = (size, made, placement) => {
  const shares = new Float32Array(size * made)
  for (const [i, place] of nearest(size, made, placement).entries()) shares[place * made + i] = 1
  return shares
}

/**
 * Computes the gradient of resizing. Resizing is a matrix product along either axis; its gradient
 * is the product with the transposed matrices.
 */
const gradient =
  (sharesOf: Shares): KernelRule =>
  (emitter, { images, dy }, attributes) => {
    const value = emitter.valueOf(dy!)
    if (value === undefined || !isFloat(value) || images!.dtype !== 'float32') return undefined
    const placement: Placement = { ...placementOf(attributes), centers: 'whole' } // as in tfjs, which supports only these
    const [batch, height, width, channels] = images!.shape as [number, number, number, number] // tfjs asserts the rank
    const [, madeHeight, madeWidth] = value.shape as readonly [number, number, number]
    const down = matrix(emitter, sharesOf(height, madeHeight, placement), [height, madeHeight])
    const across = matrix(emitter, sharesOf(width, madeWidth, placement), [width, madeWidth])
    const row = sizeOf([madeWidth, channels])
    const columns = emitter.emit('MatMul', [down, reshapeValue(emitter, value, [batch, madeHeight, row])], {
      shape: [batch, height, row],
      type: 'float32',
    })
    const lines = reshapeValue(emitter, columns, [batch * height, madeWidth, channels])
    const shape = [batch * height, width, channels]
    const made = emitter.emit('MatMul', [across, lines], { shape, type: 'float32' })
    return reshapeValue(emitter, made, [batch, height, width, channels])
  }

export const imageRules: RuleTable = {
  ResizeBilinear: resizeBilinear,
  ResizeBilinearGrad: gradient(bilinearShares),
  ResizeNearestNeighbor: resizeNearest,
  ResizeNearestNeighborGrad: gradient(nearestShares),
}
