import{at as s,au as c}from"./index-C_uTj5MI.js";const t=Symbol("NaN");function N(r,e,n){var o=new c(r);s(()=>{var a=e();a!==a&&(a=t),o.ensure(a,n)})}export{N as k};
