// The gradients of @tensorflow/tfjs-core 4.22.0, joined by scripts/make/gradients.ts. Not edited by hand.
// Copyright Google LLC, Apache License 2.0: see NOTICE.

import{Abs,Acos,Acosh,Add,AddN,All,Any,ArgMax,ArgMin,Asin,Asinh,Atan,Atan2,Atanh,AvgPool,AvgPool3D,AvgPool3DGrad,AvgPoolGrad,
BatchMatMul,BatchToSpaceND,Bincount,BitwiseAnd,BroadcastArgs,BroadcastTo,Cast,Ceil,ClipByValue,Complex,ComplexAbs,Concat,
Conv2D,Conv2DBackpropFilter,Conv2DBackpropInput,Conv3D,Conv3DBackpropFilterV2,Conv3DBackpropInputV2,Cos,Cosh,CropAndResize,
Cumprod,Cumsum,DenseBincount,DepthToSpace,DepthwiseConv2dNative,DepthwiseConv2dNativeBackpropFilter,DepthwiseConv2dNativeBackpropInput,
Diag,Dilation2D,Dilation2DBackpropFilter,Dilation2DBackpropInput,Draw,Einsum,Elu,EluGrad,Equal,Erf,Exp,ExpandDims,Expm1,
FFT,Fill,FlipLeftRight,Floor,FloorDiv,FromPixels,FusedBatchNorm,FusedConv2D,FusedDepthwiseConv2D,GatherNd,GatherV2,Greater,
GreaterEqual,IFFT,Identity,Imag,IsFinite,IsInf,IsNan,LRN,LRNGrad,LeakyRelu,Less,LessEqual,LinSpace,Log,Log1p,LogSoftmax,
LogicalAnd,LogicalNot,LogicalOr,LogicalXor,LowerBound,MatrixBandPart,Max,MaxPool,MaxPool3D,MaxPool3DGrad,MaxPoolGrad,MaxPoolWithArgmax,
Maximum,Mean,Min,Minimum,MirrorPad,Mod,Multinomial,Multiply,Neg,NonMaxSuppressionV3,NonMaxSuppressionV4,NonMaxSuppressionV5,
NotEqual,OneHot,OnesLike,Pack,PadV2,Pool,Pow,Prelu,Prod,RaggedGather,RaggedRange,RaggedTensorToTensor,Range,Real,RealDiv,
Reciprocal,Relu,Relu6,Reshape,ResizeBilinear,ResizeBilinearGrad,ResizeNearestNeighbor,ResizeNearestNeighborGrad,Reverse,
RotateWithOffset,Round,Rsqrt,ScatterNd,SearchSorted,Select,Selu,Sigmoid,Sign,Sin,Sinh,Slice,Softmax,Softplus,SpaceToBatchND,
SparseFillEmptyRows,SparseReshape,SparseSegmentMean,SparseSegmentSum,SparseToDense,SplitV,Sqrt,Square,SquaredDifference,
StaticRegexReplace,Step,StridedSlice,StringNGrams,StringSplit,StringToHashBucketFast,Sub,Sum,Tan,Tanh,TensorScatterUpdate,
Tile,TopK,Transform,Transpose,Unique,Unpack,UnsortedSegmentSum,UpperBound,ZerosLike,_FusedMatMul}from"@tensorflow/tfjs-core";import{cast}from"@tensorflow/tfjs-core";import{mul}from"@tensorflow/tfjs-core";import{step}from"@tensorflow/tfjs-core";var absGradConfig={kernelName:Abs,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(dy,step(cast(
x,"float32"),-1))}}};import{div}from"@tensorflow/tfjs-core";import{neg}from"@tensorflow/tfjs-core";import{scalar}from"@tensorflow/tfjs-core";import{sqrt}from"@tensorflow/tfjs-core";import{square}from"@tensorflow/tfjs-core";import{sub}from"@tensorflow/tfjs-core";var acosGradConfig={kernelName:Acos,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>{const a=square(
cast(x,"float32"));const b=sqrt(sub(scalar(1),a));return neg(div(dy,b))}}}};var acoshGradConfig={kernelName:Acosh,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>{const a=sqrt(
sub(square(cast(x,"float32")),1));return div(dy,a)}}}};import{backend_util}from"@tensorflow/tfjs-core";var assertAndGetBroadcastShape=backend_util.assertAndGetBroadcastShape;var getBroadcastDims=backend_util.
getBroadcastDims;var getReductionAxes=backend_util.getReductionAxes;import{reshape}from"@tensorflow/tfjs-core";import{sum}from"@tensorflow/tfjs-core";var addGradConfig={kernelName:Add,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{let res=dy;const reduceAxes=getReductionAxes(a.shape,outShape);if(reduceAxes.length>0){
res=sum(res,reduceAxes)}return reshape(res,a.shape)};const derB=()=>{let res=dy;const reduceAxes=getReductionAxes(b.shape,
outShape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(res,b.shape)};return{a:derA,b:derB}}};var addNGradConfig={kernelName:AddN,saveAllInputs:true,gradFunc:(dy,saved)=>{const ders={};saved.forEach((_,i)=>{ders[i]=
()=>dy.clone()});return ders}};import{zerosLike}from"@tensorflow/tfjs-core";var argMaxGradConfig={kernelName:ArgMax,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>zerosLike(x)}}};var argMinGradConfig={kernelName:ArgMin,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>zerosLike(x)}}};var asinGradConfig={kernelName:Asin,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,sqrt(sub(
scalar(1),square(cast(x,"float32")))))}}};import{add}from"@tensorflow/tfjs-core";var asinhGradConfig={kernelName:Asinh,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>{const a=sqrt(
add(scalar(1),square(cast(x,"float32"))));return div(dy,a)}}}};var atan2GradConfig={kernelName:Atan2,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{const d=add(square(a),square(b));let res=mul(dy,div(b,d));const reduceAxes=getReductionAxes(
a.shape,outShape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(res,a.shape)};const derB=()=>{const d=add(
square(a),square(b));let res=neg(mul(dy,div(a,d)));const reduceAxes=getReductionAxes(b.shape,outShape);if(reduceAxes.length>
0){res=sum(res,reduceAxes)}return reshape(res,b.shape)};return{a:derA,b:derB}}};var atanGradConfig={kernelName:Atan,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,add(square(
cast(x,"float32")),1))}}};var atanhGradConfig={kernelName:Atanh,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,sub(scalar(
1),square(cast(x,"float32"))))}}};import{add as add2}from"@tensorflow/tfjs-core";import{engine}from"@tensorflow/tfjs-core";var ENGINE=engine();import{ENV,Environment,env}from"@tensorflow/tfjs-core";import{Tensor,TensorBuffer,Variable}from"@tensorflow/tfjs-core";import{Tensor as Tensor2}from"@tensorflow/tfjs-core";var getGlobalTensorClass=()=>Tensor2;var Rank;(function(Rank3){Rank3["R0"]="R0";Rank3["R1"]="R1";Rank3["R2"]="R2";Rank3["R3"]="R3";Rank3["R4"]="R4";Rank3["R5"]=
"R5";Rank3["R6"]="R6"})(Rank||(Rank={}));var UpcastInt32AndMap;(function(UpcastInt32AndMap2){UpcastInt32AndMap2["float32"]=
"float32";UpcastInt32AndMap2["int32"]="int32";UpcastInt32AndMap2["bool"]="int32";UpcastInt32AndMap2["complex64"]="comple\
x64"})(UpcastInt32AndMap||(UpcastInt32AndMap={}));var UpcastBoolAndMap;(function(UpcastBoolAndMap2){UpcastBoolAndMap2["f\
loat32"]="float32";UpcastBoolAndMap2["int32"]="int32";UpcastBoolAndMap2["bool"]="bool";UpcastBoolAndMap2["complex64"]="c\
omplex64"})(UpcastBoolAndMap||(UpcastBoolAndMap={}));var UpcastFloat32AndMap;(function(UpcastFloat32AndMap2){UpcastFloat32AndMap2["\
float32"]="float32";UpcastFloat32AndMap2["int32"]="float32";UpcastFloat32AndMap2["bool"]="float32";UpcastFloat32AndMap2["\
complex64"]="complex64"})(UpcastFloat32AndMap||(UpcastFloat32AndMap={}));var UpcastComplex64AndMap;(function(UpcastComplex64AndMap2){
UpcastComplex64AndMap2["float32"]="complex64";UpcastComplex64AndMap2["int32"]="complex64";UpcastComplex64AndMap2["bool"]=
"complex64";UpcastComplex64AndMap2["complex64"]="complex64"})(UpcastComplex64AndMap||(UpcastComplex64AndMap={}));function isWebGLData(values){return values!=null&&typeof values==="object"&&"texture"in values&&values.texture instanceof
WebGLTexture}function isWebGPUData(values){return typeof GPUBuffer!=="undefined"&&values!=null&&typeof values==="object"&&
"buffer"in values&&values.buffer instanceof GPUBuffer}import{util}from"@tensorflow/tfjs-core";var arraysEqual=util.arraysEqual;var arraysEqualWithNull=util.arraysEqualWithNull;
var assert=util.assert;var assertNonNegativeIntegerDimensions=util.assertNonNegativeIntegerDimensions;var assertNonNull=util.
assertNonNull;var assertShapesMatch=util.assertShapesMatch;var bytesFromStringArray=util.bytesFromStringArray;var bytesPerElement=util.
bytesPerElement;var checkConversionForErrors=util.checkConversionForErrors;var clamp=util.clamp;var computeStrides=util.
computeStrides;var convertBackendValuesAndArrayBuffer=util.convertBackendValuesAndArrayBuffer;var createScalarValue=util.
createScalarValue;var createShuffledIndices=util.createShuffledIndices;var decodeString=util.decodeString;var distSquared=util.
distSquared;var encodeString=util.encodeString;var fetch=util.fetch;var fingerPrint64=util.fingerPrint64;var flatten=util.
flatten;var getArrayFromDType=util.getArrayFromDType;var getTypedArrayFromDType=util.getTypedArrayFromDType;var hasEncodingLoss=util.
hasEncodingLoss;var hexToLong=util.hexToLong;var indexToLoc=util.indexToLoc;var inferDtype=util.inferDtype;var inferFromImplicitShape=util.
inferFromImplicitShape;var isBoolean=util.isBoolean;var isFunction=util.isFunction;var isInt=util.isInt;var isNumber=util.
isNumber;var isPromise=util.isPromise;var isScalarShape=util.isScalarShape;var isString=util.isString;var isTypedArray=util.
isTypedArray;var isValidDtype=util.isValidDtype;var locToIndex=util.locToIndex;var makeOnesTypedArray=util.makeOnesTypedArray;
var makeZerosNestedTypedArray=util.makeZerosNestedTypedArray;var makeZerosTypedArray=util.makeZerosTypedArray;var nearestDivisor=util.
nearestDivisor;var nearestLargerEven=util.nearestLargerEven;var now=util.now;var parseAxisParam=util.parseAxisParam;var randUniform=util.
randUniform;var repeatedTry=util.repeatedTry;var rightPad=util.rightPad;var shuffle=util.shuffle;var shuffleCombo=util.shuffleCombo;
var sizeFromShape=util.sizeFromShape;var sizeToSquarishShape=util.sizeToSquarishShape;var squeezeShape=util.squeezeShape;
var sum2=util.sum;var swap=util.swap;var tanh=util.tanh;var toNestedArray=util.toNestedArray;var toTypedArray=util.toTypedArray;import{util as util2}from"@tensorflow/tfjs-core";var arraysEqual2=util2.arraysEqual;var arraysEqualWithNull2=util2.arraysEqualWithNull;
var assert2=util2.assert;var assertNonNegativeIntegerDimensions2=util2.assertNonNegativeIntegerDimensions;var assertNonNull2=util2.
assertNonNull;var assertShapesMatch2=util2.assertShapesMatch;var bytesFromStringArray2=util2.bytesFromStringArray;var bytesPerElement2=util2.
bytesPerElement;var checkConversionForErrors2=util2.checkConversionForErrors;var clamp2=util2.clamp;var computeStrides2=util2.
computeStrides;var convertBackendValuesAndArrayBuffer2=util2.convertBackendValuesAndArrayBuffer;var createShuffledIndices2=util2.
createShuffledIndices;var distSquared2=util2.distSquared;var getArrayFromDType2=util2.getArrayFromDType;var getTypedArrayFromDType2=util2.
getTypedArrayFromDType;var hasEncodingLoss2=util2.hasEncodingLoss;var indexToLoc2=util2.indexToLoc;var inferDtype2=util2.
inferDtype;var inferFromImplicitShape2=util2.inferFromImplicitShape;var isBoolean2=util2.isBoolean;var isFunction2=util2.
isFunction;var isInt2=util2.isInt;var isNumber2=util2.isNumber;var isPromise2=util2.isPromise;var isScalarShape2=util2.isScalarShape;
var isString2=util2.isString;var isValidDtype2=util2.isValidDtype;var locToIndex2=util2.locToIndex;var makeOnesTypedArray2=util2.
makeOnesTypedArray;var makeZerosNestedTypedArray2=util2.makeZerosNestedTypedArray;var makeZerosTypedArray2=util2.makeZerosTypedArray;
var nearestDivisor2=util2.nearestDivisor;var nearestLargerEven2=util2.nearestLargerEven;var parseAxisParam2=util2.parseAxisParam;
var randUniform2=util2.randUniform;var repeatedTry2=util2.repeatedTry;var rightPad2=util2.rightPad;var shuffle2=util2.shuffle;
var shuffleCombo2=util2.shuffleCombo;var sizeFromShape2=util2.sizeFromShape;var sizeToSquarishShape2=util2.sizeToSquarishShape;
var squeezeShape2=util2.squeezeShape;var sum3=util2.sum;var swap2=util2.swap;var tanh2=util2.tanh;var toNestedArray2=util2.
toNestedArray;function inferShape(val,dtype){let firstElem=val;if(isTypedArray(val)){return dtype==="string"?[]:[val.length]}if(isWebGLData(
val)){const usedChannels=val.channels||"RGBA";return[val.height,val.width*usedChannels.length]}else if(isWebGPUData(val)){
return[val.buffer.size/(dtype==null?4:bytesPerElement2(dtype))]}if(!Array.isArray(val)){return[]}const shape=[];while(Array.
isArray(firstElem)||isTypedArray(firstElem)&&dtype!=="string"){shape.push(firstElem.length);firstElem=firstElem[0]}if(Array.
isArray(val)&&env().getBool("TENSORLIKE_CHECK_SHAPE_CONSISTENCY")){deepAssertShapeConsistency(val,shape,[])}return shape}
function deepAssertShapeConsistency(val,shape,indices){indices=indices||[];if(!Array.isArray(val)&&!isTypedArray(val)){assert(
shape.length===0,()=>`Element arr[${indices.join("][")}] is a primitive, but should be an array/TypedArray of ${shape[0]}\
 elements`);return}assert(shape.length>0,()=>`Element arr[${indices.join("][")}] should be a primitive, but is an array \
of ${val.length} elements`);assert(val.length===shape[0],()=>`Element arr[${indices.join("][")}] should have ${shape[0]}\
 elements, but has ${val.length} elements`);const subShape=shape.slice(1);for(let i=0;i<val.length;++i){deepAssertShapeConsistency(
val[i],subShape,indices.concat(i))}}function assertDtype(expectedDtype,actualDType,argName,functionName){if(expectedDtype===
"string_or_numeric"){return}if(expectedDtype==null){throw new Error(`Expected dtype cannot be null.`)}if(expectedDtype!==
"numeric"&&expectedDtype!==actualDType||expectedDtype==="numeric"&&actualDType==="string"){throw new Error(`Argument '${argName}\
' passed to '${functionName}' must be ${expectedDtype} tensor, but got ${actualDType} tensor`)}}function convertToTensor(x,argName,functionName,parseAsDtype="\
numeric"){if(x instanceof getGlobalTensorClass()){assertDtype(parseAsDtype,x.dtype,argName,functionName);return x}let inferredDtype=inferDtype(
x);if(inferredDtype!=="string"&&["bool","int32","float32"].indexOf(parseAsDtype)>=0){inferredDtype=parseAsDtype}assertDtype(
parseAsDtype,inferredDtype,argName,functionName);if(x==null||!isTypedArray(x)&&!Array.isArray(x)&&typeof x!=="number"&&typeof x!==
"boolean"&&typeof x!=="string"){const type=x==null?"null":x.constructor.name;throw new Error(`Argument '${argName}' pass\
ed to '${functionName}' must be a Tensor or TensorLike, but got '${type}'`)}const inferredShape=inferShape(x,inferredDtype);
if(!isTypedArray(x)&&!Array.isArray(x)){x=[x]}const skipTypedArray=true;const values=inferredDtype!=="string"?toTypedArray(
x,inferredDtype):flatten(x,[],skipTypedArray);return ENGINE.makeTensor(values,inferredShape,inferredDtype)}import{backend_util as backend_util2}from"@tensorflow/tfjs-core";var checkPadOnDimRoundingMode=backend_util2.checkPadOnDimRoundingMode;
var computeConv2DInfo=backend_util2.computeConv2DInfo;var computeConv3DInfo=backend_util2.computeConv3DInfo;var computeDefaultPad=backend_util2.
computeDefaultPad;var computeDilation2DInfo=backend_util2.computeDilation2DInfo;var computePool2DInfo=backend_util2.computePool2DInfo;
var computePool3DInfo=backend_util2.computePool3DInfo;var convertConv2DDataFormat=backend_util2.convertConv2DDataFormat;
var eitherStridesOrDilationsAreOne=backend_util2.eitherStridesOrDilationsAreOne;var stridesOrDilationsArePositive=backend_util2.
stridesOrDilationsArePositive;var tupleValuesAreOne=backend_util2.tupleValuesAreOne;import{OP_SCOPE_SUFFIX,op}from"@tensorflow/tfjs-core";function avgPool3dGrad_(dy,input,filterSize,strides,pad3,dimRoundingMode){const $dy=convertToTensor(dy,"dy","avgPool3dGr\
ad");const $input=convertToTensor(input,"input","avgPool3dGrad");let dy5D=$dy;let input5D=$input;let reshapedTo5D=false;
if($input.rank===4){reshapedTo5D=true;dy5D=reshape($dy,[1,$dy.shape[0],$dy.shape[1],$dy.shape[2],$dy.shape[3]]);input5D=
reshape($input,[1,$input.shape[0],$input.shape[1],$input.shape[2],$input.shape[3]])}assert(dy5D.rank===5,()=>`Error in a\
vgPool3dGrad: dy must be rank 5 but got rank ${dy5D.rank}.`);assert(input5D.rank===5,()=>`Error in avgPool3dGrad: input \
must be rank 5 but got rank ${input5D.rank}.`);checkPadOnDimRoundingMode("avgPool3dGrad",pad3,dimRoundingMode);const inputs={
dy:dy5D,input:input5D};const attrs={filterSize,strides,pad:pad3,dimRoundingMode};const res=ENGINE.runKernel(AvgPool3DGrad,
inputs,attrs);if(reshapedTo5D){return reshape(res,[res.shape[1],res.shape[2],res.shape[3],res.shape[4]])}return res}var avgPool3dGrad=op(
{avgPool3dGrad_});var avgPool3DGradConfig={kernelName:AvgPool3D,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{filterSize,
strides,pad:pad3,dimRoundingMode}=attrs;return{x:()=>avgPool3dGrad(dy,x,filterSize,strides,pad3,dimRoundingMode)}}};function avgPoolGrad_(dy,input,filterSize,strides,pad3){const $dy=convertToTensor(dy,"dy","avgPoolGrad");const $input=convertToTensor(
input,"input","avgPoolGrad");assert($input.rank===$dy.rank,()=>`Rank of input (${$input.rank}) does not match rank of dy\
 (${$dy.rank})`);let input4D=$input;let dy4D=$dy;let reshapedTo4D=false;if($input.rank===3){reshapedTo4D=true;input4D=reshape(
$input,[1,$input.shape[0],$input.shape[1],$input.shape[2]]);dy4D=reshape($dy,[1,$dy.shape[0],$dy.shape[1],$dy.shape[2]])}
assert(dy4D.rank===4,()=>`Error in avgPoolGrad: dy must be rank 4 but got rank ${dy4D.rank}.`);assert(input4D.rank===4,()=>`\
Error in avgPoolGrad: input must be rank 4 but got rank ${input4D.rank}.`);const inputs={dy:dy4D,input:input4D};const attrs={
filterSize,strides,pad:pad3};const res=ENGINE.runKernel(AvgPoolGrad,inputs,attrs);if(reshapedTo4D){return reshape(res,[res.
shape[1],res.shape[2],res.shape[3]])}return res}var avgPoolGrad=op({avgPoolGrad_});var avgPoolGradConfig={kernelName:AvgPool,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{filterSize,
strides,pad:pad3}=attrs;return{x:()=>avgPoolGrad(dy,x,filterSize,strides,pad3)}}};import{matMul}from"@tensorflow/tfjs-core";var batchMatMulGradConfig={kernelName:BatchMatMul,inputsToSave:["a","b"],gradFunc:(dy,saved,attrs)=>{const[a,b]=saved;const{
transposeA,transposeB}=attrs;if(!transposeA&&!transposeB){return{a:()=>matMul(dy,b,false,true),b:()=>matMul(a,dy,true,false)}}else if(!transposeA&&
transposeB){return{a:()=>matMul(dy,b,false,false),b:()=>matMul(dy,a,true,false)}}else if(transposeA&&!transposeB){return{
a:()=>matMul(b,dy,false,true),b:()=>matMul(a,dy,false,false)}}else{return{a:()=>matMul(b,dy,true,true),b:()=>matMul(dy,a,
true,true)}}}};import{spaceToBatchND}from"@tensorflow/tfjs-core";var batchToSpaceNDGradConfig={kernelName:BatchToSpaceND,gradFunc:(dy,saved,attrs)=>{const{blockShape,crops}=attrs;return{
x:()=>spaceToBatchND(dy,blockShape,crops)}}};var broadcastToGradConfig={kernelName:BroadcastTo,gradFunc:(dy,saved,attrs)=>{const broadCastToAttrs=attrs;const inputShape=broadCastToAttrs.
inputShape;const outputShape=broadCastToAttrs.shape;const reps=Array.from(outputShape);for(let i=inputShape.length-1;i>=
0;i--){if(inputShape[i]===outputShape[i]){reps[i]=1}else if(inputShape[i]!==1){throw new Error(`broadcastTo(): [${inputShape}\
] cannot be broadcast to [${outputShape}].`)}}const axes=[];for(let i=0;i<reps.length;i++){if(reps[i]>1){axes.push(i)}}return{
x:()=>sum(dy,axes,true)}}};var castGradConfig={kernelName:Cast,gradFunc:dy=>{return{x:()=>dy.clone()}}};var ceilGradConfig={kernelName:Ceil,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};import{greaterEqual}from"@tensorflow/tfjs-core";import{lessEqual}from"@tensorflow/tfjs-core";import{logicalAnd}from"@tensorflow/tfjs-core";import{where}from"@tensorflow/tfjs-core";var clipByValueGradConfig={kernelName:ClipByValue,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{clipValueMin,
clipValueMax}=attrs;return{x:()=>where(logicalAnd(greaterEqual(x,clipValueMin),lessEqual(x,clipValueMax)),dy,zerosLike(dy))}}};var complexAbsGradConfig={kernelName:ComplexAbs,inputsToSave:["x"],gradFunc:absGradConfig.gradFunc};import{split}from"@tensorflow/tfjs-core";var concatGradConfig={kernelName:Concat,saveAllInputs:true,gradFunc:(dy,saved,attrs)=>{const shapes=saved.map(t=>t.shape);
const{axis}=attrs;const $axis=parseAxisParam(axis,saved[0].shape)[0];const sizeSplits=shapes.map(s=>s[$axis]);const derTensors=split(
dy,sizeSplits,$axis);return derTensors.map(t=>()=>t)}};function conv2DBackpropFilter_(x,dy,filterShape,strides,pad3,dataFormat="NHWC",dimRoundingMode){let x4D=x;if(x.rank===3){
x4D=reshape(x,[1,x.shape[0],x.shape[1],x.shape[2]])}let dy4D=dy;if(dy4D.rank===3){dy4D=reshape(dy,[1,dy.shape[0],dy.shape[1],
dy.shape[2]])}assert(x4D.rank===4,()=>`Error in conv2dDerFilter: input must be rank 4, but got shape ${x4D.shape}.`);assert(
dy4D.rank===4,()=>`Error in conv2dDerFilter: dy must be rank 4, but got shape ${dy4D.shape}.`);assert(filterShape.length===
4,()=>`Error in conv2dDerFilter: filterShape must be length 4, but got ${filterShape}.`);const inDepth=dataFormat==="NHW\
C"?x4D.shape[3]:x4D.shape[1];const outDepth=dataFormat==="NHWC"?dy4D.shape[3]:dy4D.shape[1];assert(inDepth===filterShape[2],
()=>`Error in conv2dDerFilter: depth of input ${inDepth}) must match input depth in filter (${filterShape[2]}.`);assert(
outDepth===filterShape[3],()=>`Error in conv2dDerFilter: depth of dy (${outDepth}) must match output depth for filter (${filterShape[3]}\
).`);checkPadOnDimRoundingMode("conv2dDerFilter",pad3,dimRoundingMode);const inputs={x:x4D,dy:dy4D};const attrs={strides,
pad:pad3,dataFormat,dimRoundingMode,filterShape};return ENGINE.runKernel(Conv2DBackpropFilter,inputs,attrs)}var conv2DBackpropFilter=op(
{conv2DBackpropFilter_});function conv2DBackpropInput_(xShape,dy,filter,strides,pad3,dataFormat="NHWC",dimRoundingMode){assert(xShape.length===dy.
rank,()=>`Length of inShape (${xShape.length}) and rank of dy (${dy.rank}) must match`);let xShape4D=xShape;let dy4D=dy;
let reshapedTo4D=false;if(dy.rank===3){reshapedTo4D=true;dy4D=reshape(dy,[1,dy.shape[0],dy.shape[1],dy.shape[2]]);xShape4D=
[1,xShape[0],xShape[1],xShape[2]]}assert(xShape4D.length===4,()=>`Error in conv2dDerInput: inShape must be length 4, but\
 got length ${xShape4D.length}.`);assert(dy4D.rank===4,()=>`Error in conv2dDerInput: dy must be rank 4, but got rank ${dy4D.
rank}`);assert(filter.rank===4,()=>`Error in conv2dDerInput: filter must be rank 4, but got rank ${filter.rank}`);const inDepth=dataFormat===
"NHWC"?xShape4D[3]:xShape4D[1];const outDepth=dataFormat==="NHWC"?dy4D.shape[3]:dy4D.shape[1];assert(inDepth===filter.shape[2],
()=>`Error in conv2dDerInput: depth of input (${inDepth}) must match input depth for filter ${filter.shape[2]}.`);assert(
outDepth===filter.shape[3],()=>`Error in conv2dDerInput: depth of output (${outDepth}) must match output depth for filte\
r ${filter.shape[3]}.`);checkPadOnDimRoundingMode("conv2dDerInput",pad3,dimRoundingMode);const inputs={dy:dy4D,filter};const attrs={
strides,pad:pad3,dataFormat,dimRoundingMode,inputShape:xShape4D};const res=ENGINE.runKernel(Conv2DBackpropInput,inputs,attrs);
if(reshapedTo4D){return reshape(res,[res.shape[1],res.shape[2],res.shape[3]])}return res}var conv2DBackpropInput=op({conv2DBackpropInput_});var conv2DGradConfig={kernelName:Conv2D,inputsToSave:["x","filter"],gradFunc:(dy,saved,attrs)=>{const[x4D,$filter]=saved;
const{dilations,strides,pad:pad3,dataFormat}=attrs;assert(tupleValuesAreOne(dilations),()=>`Error in gradient of conv2D:\
 dilation rates greater than 1 are not yet supported in gradients. Got dilations '${dilations}'`);return{x:()=>conv2DBackpropInput(
x4D.shape,dy,$filter,strides,pad3,dataFormat),filter:()=>conv2DBackpropFilter(x4D,dy,$filter.shape,strides,pad3,dataFormat)}}};import{conv2d}from"@tensorflow/tfjs-core";var conv2DBackpropInputGradConfig={kernelName:Conv2DBackpropInput,inputsToSave:["dy","filter"],gradFunc:(ddx,saved,attrs)=>{
const[dy,filter]=saved;const{strides,pad:pad3,dataFormat,dimRoundingMode}=attrs;return{dy:()=>conv2d(ddx,filter,strides,
pad3,dataFormat,1,dimRoundingMode),filter:()=>conv2DBackpropFilter(ddx,dy,filter.shape,strides,pad3,dataFormat,dimRoundingMode)}}};function conv3DBackpropFilter_(x,dy,filterShape,strides,pad3){let x5D=x;if(x.rank===4){x5D=reshape(x,[1,x.shape[0],x.shape[1],
x.shape[2],x.shape[3]])}let dy5D=dy;if(dy5D.rank===4){dy5D=reshape(dy,[1,dy.shape[0],dy.shape[1],dy.shape[2],dy.shape[3]])}
assert(x5D.rank===5,()=>`Error in conv3dDerFilter: input must be rank 5, but got shape ${x5D.shape}.`);assert(dy5D.rank===
5,()=>`Error in conv3dDerFilter: dy must be rank 5, but got shape ${dy5D.shape}.`);assert(filterShape.length===5,()=>`Er\
ror in conv3dDerFilter: filterShape must be length 5, but got ${filterShape}.`);assert(x5D.shape[4]===filterShape[3],()=>`\
Error in conv3dDerFilter: depth of input ${x5D.shape[4]}) must match input depth in filter (${filterShape[3]}.`);assert(
dy5D.shape[4]===filterShape[4],()=>`Error in conv3dDerFilter: depth of dy (${dy5D.shape[4]}) must match output depth for\
 filter (${filterShape[4]}).`);const inputs={x:x5D,dy:dy5D};const attrs={strides,pad:pad3,filterShape};return ENGINE.runKernel(
Conv3DBackpropFilterV2,inputs,attrs)}var conv3DBackpropFilter=op({conv3DBackpropFilter_});function conv3DBackpropInput_(xShape,dy,filter,strides,pad3){assert(xShape.length===dy.rank,()=>`Length of inShape (${xShape.
length}) and rank of dy (${dy.rank}) must match`);let xShape5D=xShape;let dy5D=dy;let reshapedTo5D=false;if(dy.rank===4){
reshapedTo5D=true;dy5D=reshape(dy,[1,dy.shape[0],dy.shape[1],dy.shape[2],dy.shape[3]]);xShape5D=[1,xShape[0],xShape[1],xShape[2],
xShape[3]]}const inDepth=xShape5D[4];const outDepth=dy5D.shape[4];assert(xShape5D.length===5,()=>`Error in conv3dDerInpu\
t: inShape must be length 5, but got length ${xShape5D.length}.`);assert(dy5D.rank===5,()=>`Error in conv3dDerInput: dy \
must be rank 5, but got rank ${dy5D.rank}`);assert(filter.rank===5,()=>`Error in conv3dDerInput: filter must be rank 5, \
but got rank ${filter.rank}`);assert(inDepth===filter.shape[3],()=>`Error in conv3dDerInput: depth of input (${inDepth})\
 must match input depth for filter ${filter.shape[3]}.`);assert(outDepth===filter.shape[4],()=>`Error in conv3dDerInput:\
 depth of output (${outDepth}) must match output depth for filter ${filter.shape[4]}.`);const inputs={dy:dy5D,filter};const attrs={
pad:pad3,strides,inputShape:xShape5D};const res=ENGINE.runKernel(Conv3DBackpropInputV2,inputs,attrs);if(reshapedTo5D){return reshape(
res,[res.shape[1],res.shape[2],res.shape[3],res.shape[4]])}return res}var conv3DBackpropInput=op({conv3DBackpropInput_});var conv3DGradConfig={kernelName:Conv3D,inputsToSave:["x","filter"],gradFunc:(dy,saved,attrs)=>{const{dilations,strides,
pad:pad3}=attrs;assert(tupleValuesAreOne(dilations),()=>`Error in gradient of conv3D: dilation rates greater than 1 are \
not yet supported in gradients. Got dilations '${dilations}'`);const[x5D,$filter]=saved;return{x:()=>conv3DBackpropInput(
x5D.shape,dy,$filter,strides,pad3),filter:()=>conv3DBackpropFilter(x5D,dy,$filter.shape,strides,pad3)}}};import{sin}from"@tensorflow/tfjs-core";var cosGradConfig={kernelName:Cos,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(neg(sin(cast(
x,"float32"))),dy)}}};import{sinh}from"@tensorflow/tfjs-core";var coshGradConfig={kernelName:Cosh,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(sinh(cast(x,
"float32")),dy)}}};import{backend_util as backend_util3}from"@tensorflow/tfjs-core";var assertAxesAreInnerMostDims=backend_util3.assertAxesAreInnerMostDims;
var axesAreInnerMostDims=backend_util3.axesAreInnerMostDims;var combineLocations=backend_util3.combineLocations;var computeOutAndReduceShapes=backend_util3.
computeOutAndReduceShapes;var expandShapeToKeepDim=backend_util3.expandShapeToKeepDim;var getAxesPermutation=backend_util3.
getAxesPermutation;var getInnerMostAxes=backend_util3.getInnerMostAxes;var getUndoAxesPermutation=backend_util3.getUndoAxesPermutation;import{cumsum}from"@tensorflow/tfjs-core";import{transpose}from"@tensorflow/tfjs-core";var cumsumGradConfig={kernelName:Cumsum,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{axis,exclusive,
reverse:reverse3}=attrs;return{x:()=>{const permutation=getAxesPermutation([axis],x.rank);let out=cumsum(dy,axis,exclusive,
!reverse3);if(permutation!=null){out=transpose(out,permutation)}return out}}}};function depthwiseConv2dNativeBackpropFilter_(x,dy,filterShape,strides,pad3,dilations=[1,1],dimRoundingMode){let x4D=x;if(x.
rank===3){x4D=reshape(x,[1,x.shape[0],x.shape[1],x.shape[2]])}let dy4D=dy;if(dy4D.rank===3){dy4D=reshape(dy,[1,dy.shape[0],
dy.shape[1],dy.shape[2]])}const inputs={x:x4D,dy:dy4D};const attrs={strides,pad:pad3,dimRoundingMode,dilations,filterShape};
return ENGINE.runKernel(DepthwiseConv2dNativeBackpropFilter,inputs,attrs)}var depthwiseConv2dNativeBackpropFilter=op({depthwiseConv2dNativeBackpropFilter_});function depthwiseConv2dNativeBackpropInput_(xShape,dy,filter,strides,pad3,dilations=[1,1],dimRoundingMode){let dy4D=dy;
let reshapedTo4D=false;if(dy.rank===3){reshapedTo4D=true;dy4D=reshape(dy,[1,dy.shape[0],dy.shape[1],dy.shape[2]])}const inputs={
dy:dy4D,filter};const attrs={strides,pad:pad3,dimRoundingMode,dilations,inputShape:xShape};const res=ENGINE.runKernel(DepthwiseConv2dNativeBackpropInput,
inputs,attrs);if(reshapedTo4D){return reshape(res,[res.shape[1],res.shape[2],res.shape[3]])}return res}var depthwiseConv2dNativeBackpropInput=op(
{depthwiseConv2dNativeBackpropInput_});var depthwiseConv2dNativeGradConfig={kernelName:DepthwiseConv2dNative,inputsToSave:["x","filter"],gradFunc:(dy,saved,attrs)=>{
const{dilations,strides,pad:pad3,dimRoundingMode}=attrs;const $dilations=dilations==null?[1,1]:dilations;assert(tupleValuesAreOne(
$dilations),()=>`Error in gradient of depthwiseConv2dNative: dilation rates greater than 1 are not yet supported. Got di\
lations '${$dilations}'`);const[x,filter]=saved;assert(x.rank===4,()=>`Error in gradient of depthwiseConv2dNative: input\
 must be rank 4, but got rank ${x.rank}.`);assert(filter.rank===4,()=>`Error in gradient of depthwiseConv2dNative: filte\
r must be rank 4, but got rank ${filter.rank}.`);assert(x.shape[3]===filter.shape[2],()=>`Error in gradient of depthwise\
Conv2d: number of input channels (${x.shape[3]}) must match the inChannels dimension in filter ${filter.shape[2]}.`);assert(
eitherStridesOrDilationsAreOne(strides,$dilations),()=>`Error in gradient of depthwiseConv2d: Either strides or dilation\
s must be  1. Got strides ${strides} and dilations '${$dilations}'.`);checkPadOnDimRoundingMode("depthwiseConv2d",pad3,dimRoundingMode);
return{x:()=>depthwiseConv2dNativeBackpropInput(x.shape,dy,filter,strides,pad3,$dilations,dimRoundingMode),filter:()=>depthwiseConv2dNativeBackpropFilter(
x,dy,filter.shape,strides,pad3,$dilations,dimRoundingMode)}}};var dilation2dGradConfig={kernelName:Dilation2D,inputsToSave:["x","filter"],gradFunc:(dy,saved,attrs)=>{const[x,filter]=saved;
const inputInputs={x,filter,dy};const filterInputs={x,filter,dy};return{x:()=>ENGINE.runKernel(Dilation2DBackpropInput,inputInputs,
attrs),filter:()=>ENGINE.runKernel(Dilation2DBackpropFilter,filterInputs,attrs)}}};var eluGradConfig={kernelName:Elu,outputsToSave:[true],gradFunc:(dy,saved)=>{const[y]=saved;const inputs={dy,y};return{x:()=>ENGINE.
runKernel(EluGrad,inputs)}}};import{exp}from"@tensorflow/tfjs-core";var erfGradConfig={kernelName:Erf,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;const a=mul(exp(neg(square(x))),
2/Math.sqrt(Math.PI));return{x:()=>mul(dy,a)}}};var expGradConfig={kernelName:Exp,outputsToSave:[true],gradFunc:(dy,saved)=>{const[y]=saved;return{x:()=>mul(dy,y)}}};var expandDimsGradConfig={kernelName:ExpandDims,inputsToSave:["input"],gradFunc:(dy,saved)=>{const[input]=saved;return{input:()=>reshape(
dy,input.shape)}}};var expm1GradConfig={kernelName:Expm1,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(dy,exp(x))}}};var floorGradConfig={kernelName:Floor,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};var floorDivGradConfig={kernelName:FloorDiv,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{const res=div(dy,cast(b,"float32"));const reduceAxes=getReductionAxes(a.shape,outShape);
if(reduceAxes.length>0){return reshape(sum(res,reduceAxes),a.shape)}return res};const derB=()=>{let res=mul(dy,cast(a,"f\
loat32"));const reduceAxes=getReductionAxes(b.shape,outShape);if(reduceAxes.length>0){res=reshape(sum(res,reduceAxes),b.
shape)}const tmp=square(b);return neg(div(res,cast(tmp,"float32")))};return{a:derA,b:derB}}};import{rsqrt}from"@tensorflow/tfjs-core";import{tile}from"@tensorflow/tfjs-core";var fusedBatchNormGradConfig={kernelName:FusedBatchNorm,inputsToSave:["x","mean","variance","scale"],gradFunc:(dy,saved,attrs)=>{
const{varianceEpsilon}=attrs;const[x,mean2,variance,scale]=saved;const scaleValue=scale==null?scalar(1):scale;const reductionAxes=getReductionAxes(
mean2.shape,x.shape);const tileShape=[];if(mean2.rank===1){for(let i=0;i<x.shape.length-1;++i){tileShape.push(x.shape[i])}
tileShape.push(1)}const xMinusMean=sub(x,mean2);const dyTimesScaleValue=mul(dy,scaleValue);const oneOverSqrtVariance=rsqrt(
add(variance,scalar(varianceEpsilon)));const minusHalfRCube=mul(mul(mul(oneOverSqrtVariance,oneOverSqrtVariance),oneOverSqrtVariance),
scalar(-.5));const derX=()=>{if(mean2.rank===1){return reshape(mul(mul(dy,tile(reshape(oneOverSqrtVariance,[1,1,1,mean2.
shape[0]]),tileShape)),scaleValue),x.shape)}else{return reshape(mul(mul(dy,oneOverSqrtVariance),scaleValue),x.shape)}};const derMean=()=>{
let meanDer=mul(mul(oneOverSqrtVariance,scalar(-1)),dyTimesScaleValue);if(mean2.rank===1){meanDer=sum(meanDer,reductionAxes)}
return reshape(meanDer,mean2.shape)};const derVariance=()=>{let varianceDer=mul(mul(minusHalfRCube,xMinusMean),dyTimesScaleValue);
if(mean2.rank===1){varianceDer=sum(varianceDer,reductionAxes)}return reshape(varianceDer,mean2.shape)};const derScale=()=>{
const xMinusMean2TimesRsqrt=mul(xMinusMean,oneOverSqrtVariance);let scaleDer=mul(dy,xMinusMean2TimesRsqrt);if(mean2.rank===
1){scaleDer=sum(scaleDer,reductionAxes)}return reshape(scaleDer,mean2.shape)};const derOffset=()=>{let offsetDer=dy;if(mean2.
rank===1){offsetDer=sum(offsetDer,reductionAxes)}return reshape(offsetDer,mean2.shape)};return{x:derX,mean:derMean,variance:derVariance,
scale:derScale,offset:derOffset}}};import{stack}from"@tensorflow/tfjs-core";import{unsortedSegmentSum}from"@tensorflow/tfjs-core";var gatherGradConfig={kernelName:GatherV2,inputsToSave:["x","indices"],gradFunc:(dy,saved,attrs)=>{const[x,indices]=saved;
const{axis,batchDims}=attrs;const parsedAxis=parseAxisParam(axis,x.shape)[0];const derXBatch=(x2,indices2,dy2)=>{return()=>{
const paramsShape=x2.shape;const indicesSize=indices2.size;const outerShape=paramsShape.slice(0,parsedAxis);const outerDims=outerShape.
length;const innerShape=paramsShape.slice(axis,paramsShape.length).slice(1);const innerDims=innerShape.length;const outerAxesIndices=arrayRange(
0,outerDims);const innerAxesIndices=arrayRange(outerDims+1,outerDims+1+innerDims);const valuesShape=arrayConcat([outerShape,
[indicesSize],innerShape]);const values=reshape(dy2,valuesShape);const reshapedIndices=reshape(indices2,[indicesSize]);const transposeDims=arrayConcat(
[[outerDims],outerAxesIndices,innerAxesIndices]);const valuesTranspose=transpose(values,transposeDims);let paramsGrad=unsortedSegmentSum(
valuesTranspose,reshapedIndices,x2.shape[parsedAxis]);const invertTransposeDims=getUndoAxesPermutation(transposeDims);paramsGrad=
transpose(paramsGrad,invertTransposeDims);return paramsGrad}};if(batchDims===1){const batchSize=x.shape[0];const xBatch=x.
split(batchSize,0);const derXBatched=()=>{const stacked=stack(xBatch.map((x2,i)=>{return derXBatch(x2,indices.slice(i,1),
dy.slice(i,1))()}));return stacked.reshape(x.shape)};return{x:derXBatched,indices:()=>indices}}else{return{x:derXBatch(x,
indices,dy),indices:()=>indices}}}};function arrayRange(start,stop){const result=[];for(let i=start;i<stop;++i){result.push(
i)}return result}function arrayConcat(arrays){const result=[];for(let i=0;i<arrays.length;++i){for(let j=0;j<arrays[i].length;++j){
result.push(arrays[i][j])}}return result}var greaterEqualGradConfig={kernelName:GreaterEqual,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;return{
a:()=>zerosLike(a),b:()=>zerosLike(b)}}};var identityGradConfig={kernelName:Identity,gradFunc:dy=>{return{x:()=>cast(dy,"float32")}}};var isFiniteGradConfig={kernelName:IsFinite,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};var isInfGradConfig={kernelName:IsInf,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};var isNanGradConfig={kernelName:IsNan,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};import{greater}from"@tensorflow/tfjs-core";var leakyReluGradConfig={kernelName:LeakyRelu,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{alpha}=attrs;
const mask=greater(x,0);return{x:()=>where(mask,dy,mul(dy,alpha))}}};var log1pGradConfig={kernelName:Log1p,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,add(x,
1))}}};var logGradConfig={kernelName:Log,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,cast(x,"fl\
oat32"))}}};var logSoftmaxGradConfig={kernelName:LogSoftmax,inputsToSave:[],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const[value]=saved;
const{axis}=attrs;return{logits:()=>{const keepDims=true;const softmax2=exp(value);return sub(dy,mul(sum(dy,axis,keepDims),
softmax2))}}}};function localResponseNormalizationBackprop_(x,y,dy,depthRadius=5,bias=1,alpha=1,beta=.5){const inputs={x,y,dy};const attrs={
depthRadius,bias,alpha,beta};return ENGINE.runKernel(LRNGrad,inputs,attrs)}var localResponseNormalizationBackprop=op({localResponseNormalizationBackprop_});var lrnGradConfig={kernelName:LRN,inputsToSave:["x"],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const[x,y]=saved;const{
depthRadius,bias,alpha,beta}=attrs;return{x:()=>localResponseNormalizationBackprop(x,y,dy,depthRadius,bias,alpha,beta)}}};import{equal}from"@tensorflow/tfjs-core";function gradForMinAndMax(dy,y,xOrig,origAxes){if(y.rank<xOrig.rank){y=reshape(y,expandShapeToKeepDim(y.shape,origAxes))}
if(dy.rank<xOrig.rank){dy=reshape(dy,expandShapeToKeepDim(dy.shape,origAxes))}return{x:()=>{const dx=mul(dy,cast(equal(xOrig,
y),dy.dtype));return dx}}}var maxGradConfig={kernelName:Max,inputsToSave:["x"],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const maxAttrs=attrs;
const{reductionIndices}=maxAttrs;const x=saved[0];const y=saved[1];const origAxes=parseAxisParam(reductionIndices,x.shape);
const maxGrad=gradForMinAndMax(dy,y,x,origAxes);return{x:()=>{return maxGrad["x"]()}}}};import{less}from"@tensorflow/tfjs-core";var maximumGradConfig={kernelName:Maximum,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const derA=()=>mul(
dy,cast(greaterEqual(a,b),"float32"));const derB=()=>mul(dy,cast(less(a,b),"float32"));return{a:derA,b:derB}}};function maxPool3dGrad_(dy,input,output,filterSize,strides,pad3,dimRoundingMode){const $dy=convertToTensor(dy,"dy","maxP\
ool3dGrad");const $input=convertToTensor(input,"input","maxPool3dGrad");const $output=convertToTensor(output,"output","m\
axPool3dGrad");let dy5D=$dy;let input5D=$input;let output5D=$output;let reshapedTo5D=false;if($input.rank===4){reshapedTo5D=
true;dy5D=reshape($dy,[1,$dy.shape[0],$dy.shape[1],$dy.shape[2],$dy.shape[3]]);input5D=reshape($input,[1,$input.shape[0],
$input.shape[1],$input.shape[2],$input.shape[3]]);output5D=reshape($output,[1,$output.shape[0],$output.shape[1],$output.
shape[2],$output.shape[3]])}assert(dy5D.rank===5,()=>`Error in maxPool3dGrad: dy must be rank 5 but got rank ${dy5D.rank}\
.`);assert(input5D.rank===5,()=>`Error in maxPool3dGrad: input must be rank 5 but got rank ${input5D.rank}.`);assert(output5D.
rank===5,()=>`Error in maxPool3dGrad: output must be rank 5 but got rank ${output5D.rank}.`);checkPadOnDimRoundingMode("\
maxPool3dGrad",pad3,dimRoundingMode);const inputs={dy:dy5D,input:input5D,output:output5D};const attrs={filterSize,strides,
pad:pad3,dimRoundingMode};const res=ENGINE.runKernel(MaxPool3DGrad,inputs,attrs);if(reshapedTo5D){return reshape(res,[res.
shape[1],res.shape[2],res.shape[3],res.shape[4]])}return res}var maxPool3dGrad=op({maxPool3dGrad_});var maxPool3DGradConfig={kernelName:MaxPool3D,inputsToSave:["x"],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const[
x,y]=saved;const{filterSize,strides,pad:pad3,dimRoundingMode}=attrs;return{x:()=>maxPool3dGrad(dy,x,y,filterSize,strides,
pad3,dimRoundingMode)}}};function maxPoolGrad_(dy,input,output,filterSize,strides,pad3,dimRoundingMode){const $dy=convertToTensor(dy,"dy","maxPoo\
lGrad");const $input=convertToTensor(input,"input","maxPoolGrad");const $output=convertToTensor(output,"output","maxPool\
Grad");assert($input.rank===$dy.rank,()=>`Rank of input (${$input.rank}) does not match rank of dy (${$dy.rank})`);assert(
$dy.rank===4,()=>`Error in maxPoolGrad: dy must be rank 4 but got rank ${$dy.rank}.`);assert($input.rank===4,()=>`Error \
in maxPoolGrad: input must be rank 4 but got rank ${$input.rank}.`);checkPadOnDimRoundingMode("maxPoolGrad",pad3,dimRoundingMode);
const inputs={dy:$dy,input:$input,output:$output};const attrs={filterSize,strides,pad:pad3,dimRoundingMode};return ENGINE.
runKernel(MaxPoolGrad,inputs,attrs)}var maxPoolGrad=op({maxPoolGrad_});var maxPoolGradConfig={kernelName:MaxPool,inputsToSave:["x"],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const[x,y]=saved;
const{filterSize,strides,pad:pad3}=attrs;return{x:()=>maxPoolGrad(dy,x,y,filterSize,strides,pad3)}}};import{ones}from"@tensorflow/tfjs-core";var meanGradConfig={kernelName:Mean,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{axis}=attrs;const axes=parseAxisParam(
axis,x.shape);const shapes=computeOutAndReduceShapes(x.shape,axes);const reduceShape=shapes[1];const reduceSize=sizeFromShape(
reduceShape);const derX=()=>{const expandedDyShape=x.shape.slice();axes.forEach(axis2=>{expandedDyShape[axis2]=1});const expandedDy=reshape(
dy,expandedDyShape);const res=div(mul(expandedDy,ones(x.shape,"float32")),reduceSize);return res};return{x:derX}}};var minGradConfig={kernelName:Min,inputsToSave:["x"],outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const minAttrs=attrs;
const{axis}=minAttrs;const[x,y]=saved;const origAxes=parseAxisParam(axis,x.shape);const minGrad=gradForMinAndMax(dy,y,x,
origAxes);return{x:()=>{return minGrad["x"]()}}}};var minimumGradConfig={kernelName:Minimum,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const derA=()=>mul(
dy,cast(lessEqual(a,b),"float32"));const derB=()=>mul(dy,cast(greater(a,b),"float32"));return{a:derA,b:derB}}};import{slice}from"@tensorflow/tfjs-core";var mirrorPadGradConfig={kernelName:MirrorPad,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const x=saved[0];const{paddings}=attrs;
const begin=paddings.map(p=>p[0]);return{x:()=>slice(dy,begin,x.shape)}}};import{floor}from"@tensorflow/tfjs-core";var modGradConfig={kernelName:Mod,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{const reduceAxes=getReductionAxes(a.shape,outShape);if(reduceAxes.length>0){return reshape(
sum(dy,reduceAxes),a.shape)}return dy};const derB=()=>{const res=mul(dy,neg(floor(div(a,b))));const reduceAxes=getReductionAxes(
b.shape,outShape);if(reduceAxes.length>0){return reshape(sum(res,reduceAxes),b.shape)}return res};return{a:derA,b:derB}}};var multiplyGradConfig={kernelName:Multiply,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{const res=mul(dy,cast(b,"float32"));const reduceAxes=getReductionAxes(a.shape,outShape);
if(reduceAxes.length>0){return reshape(sum(res,reduceAxes),a.shape)}return res};const derB=()=>{const res=mul(dy,cast(a,
"float32"));const reduceAxes=getReductionAxes(b.shape,outShape);if(reduceAxes.length>0){return reshape(sum(res,reduceAxes),
b.shape)}return res};return{a:derA,b:derB}}};var negGradConfig={kernelName:Neg,gradFunc:dy=>{return{x:()=>neg(dy)}}};import{zeros}from"@tensorflow/tfjs-core";var oneHotGradConfig={kernelName:OneHot,inputsToSave:["indices"],gradFunc:(dy,saved)=>{const indices=saved[0];return{indices:()=>zeros(
indices.shape,"float32")}}};var onesLikeGradConfig={kernelName:OnesLike,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};import{unstack}from"@tensorflow/tfjs-core";var packGradConfig={kernelName:Pack,saveAllInputs:true,gradFunc:(dy,saved,attrs)=>{const{axis}=attrs;const derTensors=unstack(
dy,axis);return derTensors.map(t=>()=>t)}};var padV2GradConfig={kernelName:PadV2,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const x=saved[0];const{paddings}=attrs;
const begin=paddings.map(p=>p[0]);return{x:()=>slice(dy,begin,x.shape)}}};import{log}from"@tensorflow/tfjs-core";import{pow}from"@tensorflow/tfjs-core";var powGradConfig={kernelName:Pow,inputsToSave:["a","b"],outputsToSave:[true],gradFunc:(dy,saved)=>{const[a,b,y]=saved;const base=a;
const exp3=b;const outShape=assertAndGetBroadcastShape(base.shape,exp3.shape);const derBase=()=>{const expFloat=cast(exp3,
"float32");let res=mul(dy,mul(expFloat,pow(base,sub(expFloat,scalar(1)))));const reduceAxes=getReductionAxes(base.shape,
outShape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(res,base.shape)};const derExp=()=>{const condition=greater(
base,0);const logBase=where(condition,log(base),zerosLike(base));let res=mul(dy,mul(y,logBase));const reduceAxes=getReductionAxes(
exp3.shape,outShape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(res,exp3.shape)};return{a:derBase,b:derExp}}};var preluGradConfig={kernelName:Prelu,inputsToSave:["x","alpha"],gradFunc:(dy,saved)=>{const[x,alpha]=saved;const mask=greater(
x,0);return{x:()=>where(mask,dy,mul(dy,alpha)),alpha:()=>{let res=where(mask,zerosLike(dy),mul(dy,x));const reduceAxes=getReductionAxes(
alpha.shape,dy.shape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(res,alpha.shape)}}}};import{Abs as Abs2,Acos as Acos2,Acosh as Acosh2,AdadeltaOptimizer,AdagradOptimizer,AdamOptimizer,AdamaxOptimizer,Add as Add2,
AddN as AddN2,All as All2,Any as Any2,ArgMax as ArgMax2,ArgMin as ArgMin2,Asin as Asin2,Asinh as Asinh2,Atan as Atan3,Atan2 as Atan22,
Atanh as Atanh2,AvgPool as AvgPool2,AvgPool3D as AvgPool3D2,AvgPool3DGrad as AvgPool3DGrad2,AvgPoolGrad as AvgPoolGrad2,
BatchMatMul as BatchMatMul2,BatchToSpaceND as BatchToSpaceND2,Bincount as Bincount2,BitwiseAnd as BitwiseAnd2,BroadcastArgs as BroadcastArgs2,
BroadcastTo as BroadcastTo2,Cast as Cast2,Ceil as Ceil2,ClipByValue as ClipByValue2,Complex as Complex2,ComplexAbs as ComplexAbs2,
Concat as Concat2,Conv2D as Conv2D2,Conv2DBackpropFilter as Conv2DBackpropFilter2,Conv2DBackpropInput as Conv2DBackpropInput2,
Conv3D as Conv3D2,Conv3DBackpropFilterV2 as Conv3DBackpropFilterV22,Conv3DBackpropInputV2 as Conv3DBackpropInputV22,Cos as Cos2,
Cosh as Cosh2,CropAndResize as CropAndResize2,Cumprod as Cumprod2,Cumsum as Cumsum2,DataStorage,DenseBincount as DenseBincount2,
DepthToSpace as DepthToSpace2,DepthwiseConv2dNative as DepthwiseConv2dNative2,DepthwiseConv2dNativeBackpropFilter as DepthwiseConv2dNativeBackpropFilter2,
DepthwiseConv2dNativeBackpropInput as DepthwiseConv2dNativeBackpropInput2,Diag as Diag2,Dilation2D as Dilation2D2,Dilation2DBackpropFilter as Dilation2DBackpropFilter2,
Dilation2DBackpropInput as Dilation2DBackpropInput2,Draw as Draw2,ENV as ENV2,Einsum as Einsum2,Elu as Elu2,EluGrad as EluGrad2,
Environment as Environment2,Equal as Equal2,Erf as Erf2,Exp as Exp2,ExpandDims as ExpandDims2,Expm1 as Expm12,FFT as FFT2,
Fill as Fill2,FlipLeftRight as FlipLeftRight2,Floor as Floor2,FloorDiv as FloorDiv2,FromPixels as FromPixels2,FusedBatchNorm as FusedBatchNorm2,
FusedConv2D as FusedConv2D2,FusedDepthwiseConv2D as FusedDepthwiseConv2D2,GatherNd as GatherNd2,GatherV2 as GatherV22,Greater as Greater2,
GreaterEqual as GreaterEqual2,IFFT as IFFT2,Identity as Identity2,Imag as Imag2,IsFinite as IsFinite2,IsInf as IsInf2,IsNan as IsNan2,
KernelBackend,LRN as LRN2,LRNGrad as LRNGrad2,LeakyRelu as LeakyRelu2,Less as Less2,LessEqual as LessEqual2,LinSpace as LinSpace2,
Log as Log2,Log1p as Log1p2,LogSoftmax as LogSoftmax2,LogicalAnd as LogicalAnd2,LogicalNot as LogicalNot2,LogicalOr as LogicalOr2,
LogicalXor as LogicalXor2,LowerBound as LowerBound2,MatrixBandPart as MatrixBandPart2,Max as Max2,MaxPool as MaxPool2,MaxPool3D as MaxPool3D2,
MaxPool3DGrad as MaxPool3DGrad2,MaxPoolGrad as MaxPoolGrad2,MaxPoolWithArgmax as MaxPoolWithArgmax2,Maximum as Maximum2,
Mean as Mean2,Min as Min2,Minimum as Minimum2,MirrorPad as MirrorPad2,Mod as Mod2,MomentumOptimizer,Multinomial as Multinomial2,
Multiply as Multiply2,Neg as Neg2,NonMaxSuppressionV3 as NonMaxSuppressionV32,NonMaxSuppressionV4 as NonMaxSuppressionV42,
NonMaxSuppressionV5 as NonMaxSuppressionV52,NotEqual as NotEqual2,OP_SCOPE_SUFFIX as OP_SCOPE_SUFFIX2,OneHot as OneHot2,
OnesLike as OnesLike2,Optimizer,OptimizerConstructors,Pack as Pack2,PadV2 as PadV22,Pool as Pool2,Pow as Pow2,Prelu as Prelu2,
Prod as Prod2,RMSPropOptimizer,RaggedGather as RaggedGather2,RaggedRange as RaggedRange2,RaggedTensorToTensor as RaggedTensorToTensor2,
Range as Range2,Rank as Rank2,Real as Real2,RealDiv as RealDiv2,Reciprocal as Reciprocal2,Reduction,Relu as Relu2,Relu6 as Relu62,
Reshape as Reshape2,ResizeBilinear as ResizeBilinear2,ResizeBilinearGrad as ResizeBilinearGrad2,ResizeNearestNeighbor as ResizeNearestNeighbor2,
ResizeNearestNeighborGrad as ResizeNearestNeighborGrad2,Reverse as Reverse2,RotateWithOffset as RotateWithOffset2,Round as Round2,
Rsqrt as Rsqrt2,SGDOptimizer,ScatterNd as ScatterNd2,SearchSorted as SearchSorted2,Select as Select2,Selu as Selu2,Sigmoid as Sigmoid2,
Sign as Sign2,Sin as Sin2,Sinh as Sinh2,Slice as Slice2,Softmax as Softmax2,Softplus as Softplus2,SpaceToBatchND as SpaceToBatchND2,
SparseFillEmptyRows as SparseFillEmptyRows2,SparseReshape as SparseReshape2,SparseSegmentMean as SparseSegmentMean2,SparseSegmentSum as SparseSegmentSum2,
SparseToDense as SparseToDense2,SplitV as SplitV2,Sqrt as Sqrt2,Square as Square2,SquaredDifference as SquaredDifference2,
StaticRegexReplace as StaticRegexReplace2,Step as Step2,StridedSlice as StridedSlice2,StringNGrams as StringNGrams2,StringSplit as StringSplit2,
StringToHashBucketFast as StringToHashBucketFast2,Sub as Sub2,Sum as Sum2,Tan as Tan2,Tanh as Tanh2,Tensor as Tensor3,TensorBuffer as TensorBuffer2,
TensorScatterUpdate as TensorScatterUpdate2,Tile as Tile2,TopK as TopK2,Transform as Transform2,Transpose as Transpose2,
Unique as Unique2,Unpack as Unpack2,UnsortedSegmentSum as UnsortedSegmentSum2,UpperBound as UpperBound2,Variable as Variable2,
ZerosLike as ZerosLike2,_FusedMatMul as _FusedMatMul2,abs,acos,acosh,add as add3,addN,all,any,argMax,argMin,asin,asinh,atan,
atan2,atanh,avgPool,avgPool3d,backend,backend_util as backend_util4,basicLSTMCell,batchNorm,batchNorm2d,batchNorm3d,batchNorm4d,
batchToSpaceND,bincount,bitwiseAnd,booleanMaskAsync,broadcastArgs,broadcastTo,broadcast_util,browser,buffer,cast as cast2,
ceil,clipByValue,clone,complex,concat,concat1d,concat2d,concat3d,concat4d,conv1d,conv2d as conv2d2,conv2dTranspose,conv3d,
conv3dTranspose,copyRegisteredKernels,cos,cosh,cosineWindow,cumprod,cumsum as cumsum2,customGrad,denseBincount,deprecationWarn,
depthToSpace,depthwiseConv2d,device_util,diag,dilation2d,disableDeprecationWarnings,dispose,disposeVariables,div as div2,
divNoNan,dot,dropout,einsum,elu,enableDebugMode,enableProdMode,enclosingPowerOfTwo,engine as engine2,ensureShape,env as env2,
equal as equal2,erf,euclideanNorm,exp as exp2,expandDims,expm1,eye,fft,fill,findBackend,findBackendFactory,floor as floor2,
floorDiv,fused,gather,gatherND,gather_util,getBackend,getGradient,getKernel,getKernelsForBackend,grad,grads,greater as greater2,
greaterEqual as greaterEqual2,ifft,imag,image,inTopKAsync,io,irfft,isFinite,isInf,isNaN,keep,kernel_impls,leakyRelu,less as less2,
lessEqual as lessEqual2,linalg,linspace,localResponseNormalization,log as log2,log1p,logSigmoid,logSoftmax,logSumExp,logicalAnd as logicalAnd2,
logicalNot,logicalOr,logicalXor,losses,lowerBound,matMul as matMul2,math,max,maxPool,maxPool3d,maxPoolWithArgmax,maximum,
mean,memory,meshgrid,min,minimum,mirrorPad,mod,moments,movingAverage,mul as mul2,multiRNNCell,multinomial,neg as neg2,nextFrame,
norm,notEqual,oneHot,ones as ones2,onesLike,op as op2,outerProduct,pad,pad1d,pad2d,pad3d,pad4d,pool,pow as pow2,prelu,print,
prod,profile,raggedGather,raggedRange,raggedTensorToTensor,rand,randomGamma,randomNormal,randomStandardNormal,randomUniform,
randomUniformInt,range,ready,real,reciprocal,registerBackend,registerGradient,registerKernel,relu,relu6,removeBackend,reshape as reshape2,
reverse,reverse1d,reverse2d,reverse3d,reverse4d,rfft,round,rsqrt as rsqrt2,scalar as scalar2,scatterND,scatter_util,searchSorted,
selu,separableConv2d,serialization,setBackend,setPlatform,setdiff1dAsync,sigmoid,sign,signal,sin as sin2,sinh as sinh2,slice as slice2,
slice1d,slice2d,slice3d,slice4d,slice_util,softmax,softplus,spaceToBatchND as spaceToBatchND2,sparse,sparseToDense,spectral,
split as split2,sqrt as sqrt2,square as square2,squaredDifference,squeeze,stack as stack2,step as step2,stridedSlice,string,
sub as sub2,sum as sum4,sumOutType,tan,tanh as tanh3,tensor,tensor1d,tensor2d,tensor3d,tensor4d,tensor5d,tensor6d,tensorScatterUpdate,
tensor_util,test_util,tidy,tile as tile2,time,topk,train,transpose as transpose2,truncatedNormal,unique,unregisterGradient,
unregisterKernel,unsortedSegmentSum as unsortedSegmentSum2,unstack as unstack2,upcastType,upperBound,util as util3,valueAndGrad,
valueAndGrads,variable,variableGrads,version_core,where as where2,whereAsync,zeros as zeros2,zerosLike as zerosLike2}from"@tensorflow/tfjs-core";import{cumprod as cumprod2}from"@tensorflow/tfjs-core";function prodGradFn_(x,dy,axis){const expandedYShape=x.shape.slice();expandedYShape[axis]=1;const expandedDy=reshape(dy,
expandedYShape);const xCumProd=cumprod2(x,axis,true,false);const xCumRevProd=cumprod2(x,axis,true,true);const dx=mul(xCumProd,
xCumRevProd);return mul(expandedDy,dx)}function prodsGradFn_(x,dy,axis){const xRank=x.shape.length;const finalProdAxis=xRank-
axis.length;const xPermutation=backend_util4.getAxesPermutation(axis,xRank);let permutedX=x;if(xPermutation!=null){permutedX=
transpose(x,xPermutation)}const newShape=permutedX.shape.slice();const removedShape=newShape.splice(xRank-axis.length,axis.
length);const endPartShape=removedShape.reduce((p,c)=>p*c,1);newShape.push(endPartShape);const reshapedPermutedX=permutedX.
reshape(newShape);let prodGrad=prodGradFn_(reshapedPermutedX,dy,finalProdAxis);prodGrad=prodGrad.reshape(permutedX.shape);
if(xPermutation!=null){const undoPermutation=backend_util4.getUndoAxesPermutation(xPermutation);prodGrad=transpose(prodGrad,
undoPermutation)}return prodGrad}var prodGradConfig={kernelName:Prod,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[
x]=saved;const{axis}=attrs;let axisArr=[];if(axis===void 0||axis===null){axisArr=x.shape.map((_,i)=>i)}else if(typeof axis===
"number"){axisArr=[axis]}else{axisArr=axis}return{x:()=>prodsGradFn_(x,dy,axisArr)}}};var divGradConfig={kernelName:RealDiv,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{const res=div(dy,cast(b,"float32"));const reduceAxes=getReductionAxes(a.shape,outShape);
if(reduceAxes.length>0){return reshape(sum(res,reduceAxes),a.shape)}return res};const derB=()=>{let res=mul(dy,cast(a,"f\
loat32"));const reduceAxes=getReductionAxes(b.shape,outShape);if(reduceAxes.length>0){res=reshape(sum(res,reduceAxes),b.
shape)}const tmp=square(b);return neg(div(res,cast(tmp,"float32")))};return{a:derA,b:derB}}};var reciprocalGradConfig={kernelName:Reciprocal,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(
dy,neg(square(x)))}}};var relu6GradConfig={kernelName:Relu6,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;const mask=mul(lessEqual(x,
6),step(x));return{x:()=>mul(dy,cast(mask,"float32"))}}};var reluGradConfig={kernelName:Relu,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(dy,cast(step(
x),"float32"))}}};var reshapeGradConfig={kernelName:Reshape,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>reshape(dy,
x.shape)}}};var resizeBilinearGradConfig={kernelName:ResizeBilinear,inputsToSave:["images"],gradFunc:(dy,saved,attrs)=>{const[images]=saved;
const inputs={dy,images};const imagesDer=()=>ENGINE.runKernel(ResizeBilinearGrad,inputs,attrs);return{images:imagesDer}}};var resizeNearestNeighborGradConfig={kernelName:ResizeNearestNeighbor,inputsToSave:["images"],gradFunc:(dy,saved,attrs)=>{
const[images]=saved;const inputs={dy,images};const imagesDer=()=>ENGINE.runKernel(ResizeNearestNeighborGrad,inputs,attrs);
return{images:imagesDer}}};import{reverse as reverse2}from"@tensorflow/tfjs-core";var reverseGradConfig={kernelName:Reverse,gradFunc:(dy,saved,attrs)=>{const{dims}=attrs;const axes=parseAxisParam(dims,dy.
shape);return{x:()=>reverse2(dy,axes)}}};var roundGradConfig={kernelName:Round,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};var rsqrtGradConfig={kernelName:Rsqrt,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>neg(div(dy,mul(
pow(x,1.5),2)))}}};import{logicalNot as logicalNot2}from"@tensorflow/tfjs-core";var selectGradConfig={kernelName:Select,inputsToSave:["condition"],gradFunc:(dy,saved)=>{const[condition]=saved;return{condition:()=>cast(
zerosLike(condition),"float32"),t:()=>mul(dy,cast(condition,dy.dtype)),e:()=>mul(dy,cast(logicalNot2(condition),dy.dtype))}}};import{backend_util as backend_util5}from"@tensorflow/tfjs-core";var SELU_SCALE=backend_util5.SELU_SCALE;var SELU_SCALEALPHA=backend_util5.
SELU_SCALEALPHA;var seluGradConfig={kernelName:Selu,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>{const mask=greater(
x,scalar(0));const scaleAlpha=scalar(SELU_SCALEALPHA);const scale=scalar(SELU_SCALE);const greaterThanZeroDer=mul(dy,scale);
const lessEqualZeroDer=mul(mul(dy,scaleAlpha),exp(cast(x,"float32")));return where(mask,greaterThanZeroDer,lessEqualZeroDer)}}}};var sigmoidGradConfig={kernelName:Sigmoid,outputsToSave:[true],gradFunc:(dy,saved)=>{const[y]=saved;return{x:()=>mul(dy,
mul(y,sub(scalar(1),y)))}}};var signGradConfig={kernelName:Sign,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};import{cos as cos2}from"@tensorflow/tfjs-core";var sinGradConfig={kernelName:Sin,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(cos2(cast(x,"\
float32")),dy)}}};import{cosh as cosh2}from"@tensorflow/tfjs-core";var sinhGradConfig={kernelName:Sinh,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(cosh2(cast(
x,"float32")),dy)}}};import{pad as pad2}from"@tensorflow/tfjs-core";import{slice_util as slice_util2}from"@tensorflow/tfjs-core";var assertParamsValid=slice_util2.assertParamsValid;var computeFlatOffset=slice_util2.
computeFlatOffset;var computeOutShape=slice_util2.computeOutShape;var getNormalizedAxes=slice_util2.getNormalizedAxes;var isSliceContinous=slice_util2.
isSliceContinous;var maskToAxes=slice_util2.maskToAxes;var parseSliceParams=slice_util2.parseSliceParams;var sliceInfo=slice_util2.
sliceInfo;var startForAxis=slice_util2.startForAxis;var startIndicesWithElidedDims=slice_util2.startIndicesWithElidedDims;
var stopForAxis=slice_util2.stopForAxis;var stopIndicesWithElidedDims=slice_util2.stopIndicesWithElidedDims;var stridesForAxis=slice_util2.
stridesForAxis;var stridesWithElidedDims=slice_util2.stridesWithElidedDims;var sliceGradConfig={kernelName:Slice,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{begin,size}=attrs;
const inputShape=x.shape;const[begin_,size_]=parseSliceParams(x,begin,size);const paddings=[];for(let i=0;i<dy.rank;i++){
paddings.push([begin_[i],inputShape[i]-begin_[i]-size_[i]])}return{x:()=>pad2(dy,paddings)}}};var softmaxGradConfig={kernelName:Softmax,outputsToSave:[true],gradFunc:(dy,saved,attrs)=>{const[y]=saved;const{dim}=attrs;
const keepDims=true;const dyTimesY=mul(dy,y);return{logits:()=>sub(dyTimesY,mul(sum(dyTimesY,[dim],keepDims),y))}}};import{sigmoid as sigmoid2}from"@tensorflow/tfjs-core";var softplusGradConfig={kernelName:Softplus,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(dy,
sigmoid2(x))}}};import{batchToSpaceND as batchToSpaceND2}from"@tensorflow/tfjs-core";var spaceToBatchNDGradConfig={kernelName:SpaceToBatchND,gradFunc:(dy,saved,attrs)=>{const{blockShape,paddings}=attrs;return{
x:()=>batchToSpaceND2(dy,blockShape,paddings)}}};import{concat as concat2}from"@tensorflow/tfjs-core";var splitVGradConfig={kernelName:SplitV,gradFunc:(dy,saved,attrs)=>{const{axis}=attrs;return{x:()=>concat2(dy,axis)}}};var sqrtGradConfig={kernelName:Sqrt,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,mul(sqrt(
cast(x,"float32")),2))}}};var squareGradConfig={kernelName:Square,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>mul(dy,mul(
cast(x,"float32"),2))}}};var squaredDifferenceGradConfig={kernelName:SquaredDifference,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;
const two=scalar(2);const derA=()=>mul(dy,mul(two,sub(a,b)));const derB=()=>mul(dy,mul(two,sub(b,a)));return{a:derA,b:derB}}};var stepGradConfig={kernelName:Step,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};var subGradConfig={kernelName:Sub,inputsToSave:["a","b"],gradFunc:(dy,saved)=>{const[a,b]=saved;const outShape=assertAndGetBroadcastShape(
a.shape,b.shape);const derA=()=>{let res=dy;const reduceAxes=getReductionAxes(a.shape,outShape);if(reduceAxes.length>0){
res=sum(res,reduceAxes)}return reshape(res,a.shape)};const derB=()=>{let res=dy;const reduceAxes=getReductionAxes(b.shape,
outShape);if(reduceAxes.length>0){res=sum(res,reduceAxes)}return reshape(neg(res),b.shape)};return{a:derA,b:derB}}};var sumGradConfig={kernelName:Sum,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const expandedDyShape=x.
shape.slice();const{axis}=attrs;const axes=parseAxisParam(axis,x.shape);axes.forEach(axis2=>{expandedDyShape[axis2]=1});
const expandedDy=reshape(dy,expandedDyShape);const derX=mul(expandedDy,ones(x.shape,"float32"));return{x:()=>derX}}};var tanGradConfig={kernelName:Tan,inputsToSave:["x"],gradFunc:(dy,saved)=>{const[x]=saved;return{x:()=>div(dy,square(cos2(
x)))}}};var tanhGradConfig={kernelName:Tanh,outputsToSave:[true],gradFunc:(dy,saved)=>{const[y]=saved;return{x:()=>mul(sub(scalar(
1),square(y)),dy)}}};var tileGradConfig={kernelName:Tile,inputsToSave:["x"],gradFunc:(dy,saved,attrs)=>{const[x]=saved;const{reps}=attrs;const derX=()=>{
let xGrad=zerosLike(x);if(x.rank===1){for(let i=0;i<reps[0];++i){xGrad=add(xGrad,slice(dy,[i*x.shape[0]],[x.shape[0]]))}}else if(x.
rank===2){for(let i=0;i<reps[0];++i){for(let j=0;j<reps[1];++j){xGrad=add(xGrad,slice(dy,[i*x.shape[0],j*x.shape[1]],[x.
shape[0],x.shape[1]]))}}}else if(x.rank===3){for(let i=0;i<reps[0];++i){for(let j=0;j<reps[1];++j){for(let k=0;k<reps[2];++k){
xGrad=add(xGrad,slice(dy,[i*x.shape[0],j*x.shape[1],k*x.shape[2]],[x.shape[0],x.shape[1],x.shape[2]]))}}}}else if(x.rank===
4){for(let i=0;i<reps[0];++i){for(let j=0;j<reps[1];++j){for(let k=0;k<reps[2];++k){for(let l=0;l<reps[3];++l){xGrad=add(
xGrad,slice(dy,[i*x.shape[0],j*x.shape[1],k*x.shape[2],l*x.shape[3]],[x.shape[0],x.shape[1],x.shape[2],x.shape[3]]))}}}}}else{
throw new Error(`Gradient for tile operation is not implemented for rank-${x.rank} tensors yet.`)}return xGrad};return{x:derX}}};var transposeGradConfig={kernelName:Transpose,gradFunc:(dy,saved,attrs)=>{const transposeAttrs=attrs;const{perm}=transposeAttrs;
const undoPerm=getUndoAxesPermutation(perm);return{x:()=>transpose(dy,undoPerm)}}};var unpackGradConfig={kernelName:Unpack,gradFunc:(dy,saved,attrs)=>{const unpackAttrs=attrs;const{axis}=unpackAttrs;return{
value:()=>stack(dy,axis)}}};import{expandDims as expandDims2}from"@tensorflow/tfjs-core";import{gather as gather2}from"@tensorflow/tfjs-core";import{maximum as maximum2}from"@tensorflow/tfjs-core";var unsortedSegmentSumGradConfig={kernelName:UnsortedSegmentSum,inputsToSave:["segmentIds"],gradFunc:(dy,saved)=>{const[
segmentIds]=saved;const derX=()=>{return gatherDropNegatives(dy,segmentIds)};return{x:derX}}};function gatherDropNegatives(x,indices){
const zeroClippedIndices=maximum2(indices,zerosLike(indices));const gathered=gather2(x,zeroClippedIndices);let isPositive=greaterEqual(
indices,scalar(0,"int32"));const numIters=gathered.rank-isPositive.rank;for(let i=0;i<numIters;++i){isPositive=expandDims2(
isPositive,i+1)}isPositive=logicalAnd(isPositive,ones(gathered.shape,"bool"));const zeroSlice=zerosLike(gathered);return where(
isPositive,gathered,zeroSlice)}var zerosLikeGradConfig={kernelName:ZerosLike,gradFunc:dy=>{return{x:()=>zerosLike(dy)}}};import{copyRegisteredKernels as copyRegisteredKernels2,getGradient as getGradient2,getKernel as getKernel2,getKernelsForBackend as getKernelsForBackend2,
registerGradient as registerGradient2,registerKernel as registerKernel2,unregisterGradient as unregisterGradient2,unregisterKernel as unregisterKernel2}from"@tensorflow/tfjs-core";var gradConfigs=[absGradConfig,acosGradConfig,acoshGradConfig,addGradConfig,addNGradConfig,argMaxGradConfig,argMinGradConfig,
asinGradConfig,asinhGradConfig,atan2GradConfig,atanGradConfig,atanhGradConfig,avgPool3DGradConfig,avgPoolGradConfig,batchMatMulGradConfig,
batchToSpaceNDGradConfig,broadcastToGradConfig,castGradConfig,ceilGradConfig,clipByValueGradConfig,complexAbsGradConfig,
concatGradConfig,conv2DBackpropInputGradConfig,conv2DGradConfig,conv3DGradConfig,cosGradConfig,coshGradConfig,cumsumGradConfig,
depthwiseConv2dNativeGradConfig,dilation2dGradConfig,divGradConfig,eluGradConfig,erfGradConfig,expGradConfig,expandDimsGradConfig,
expm1GradConfig,floorDivGradConfig,floorGradConfig,fusedBatchNormGradConfig,gatherGradConfig,greaterEqualGradConfig,identityGradConfig,
isFiniteGradConfig,isInfGradConfig,isNanGradConfig,leakyReluGradConfig,log1pGradConfig,logGradConfig,logSoftmaxGradConfig,
lrnGradConfig,maxGradConfig,maxGradConfig,maximumGradConfig,maxPool3DGradConfig,maxPoolGradConfig,meanGradConfig,minGradConfig,
minimumGradConfig,mirrorPadGradConfig,modGradConfig,multiplyGradConfig,negGradConfig,oneHotGradConfig,onesLikeGradConfig,
packGradConfig,padV2GradConfig,padV2GradConfig,powGradConfig,preluGradConfig,prodGradConfig,reciprocalGradConfig,relu6GradConfig,
reluGradConfig,reshapeGradConfig,resizeBilinearGradConfig,resizeNearestNeighborGradConfig,reverseGradConfig,roundGradConfig,
rsqrtGradConfig,selectGradConfig,seluGradConfig,sigmoidGradConfig,signGradConfig,sinGradConfig,sinhGradConfig,sliceGradConfig,
softmaxGradConfig,softplusGradConfig,spaceToBatchNDGradConfig,spaceToBatchNDGradConfig,splitVGradConfig,splitVGradConfig,
sqrtGradConfig,squaredDifferenceGradConfig,squareGradConfig,stepGradConfig,subGradConfig,sumGradConfig,tanGradConfig,tanhGradConfig,
tileGradConfig,transposeGradConfig,unpackGradConfig,unsortedSegmentSumGradConfig,zerosLikeGradConfig];for(const gradientConfig of gradConfigs){
registerGradient2(gradientConfig)}
