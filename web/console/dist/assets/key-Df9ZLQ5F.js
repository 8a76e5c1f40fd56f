import{ar as s,as as c}from"./index-BtNl6t_D.js";const k=Symbol("NaN");function N(r,e,n){var o=new c(r);s(()=>{var a=e();a!==a&&(a=k),o.ensure(a,n)})}export{N as k};
